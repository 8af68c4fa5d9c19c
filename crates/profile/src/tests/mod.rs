//! Promises of the whole crate, on profiles made in memory.

mod damage;
mod reports;
mod symbols;

use crate::synthetic::Writer;
use crate::{Format, Options, Profile, Report, TextStyle};
use homefree_wire::records::{role_kind, tag};

const MAIN: u32 = 1;
const WORKER: u32 = 2;
const READER: u32 = 3;

/// A server: readers make requests, workers free most of them; 10 stay.
fn server(pid: u32) -> Writer {
    let mut w = Writer::new(pid);
    w.text(tag::EXE, "/opt/server/bin/server");
    w.text(tag::CMDLINE, "server\0--threads\08\0");
    w.module(1, (0x10_0000, 0x20_0000), &[7; 20], "");
    w.module(
        2,
        (0x7f00_0000, 0x7f10_0000),
        &[9; 20],
        "/usr/lib/libparse.so.1",
    );
    w.role(MAIN, role_kind::MAIN, "server", 0);
    w.role(WORKER, role_kind::NAME, "worker-*", 7);
    w.role(READER, role_kind::NAME, "reader-*", 0);
    let request = w.stack(&[0x10_0100, 0x10_0200, 0x7f00_0300]);
    let reply = w.stack(&[0x10_0100, 0x10_0400]);
    let done = w.stack(&[0x10_0900, 0x10_0a00]);
    let main = w.thread(MAIN);
    let reader = w.thread(READER);
    let worker = w.thread(WORKER);
    w.allocated(main, reply, 50, 50, 100);
    w.allocated(reader, request, 1_000, 90, 2_048);
    w.allocated(worker, reply, 500, 400, 64);
    w.freed(worker, (READER, request), done, 900, 2_048, 1_200_000);
    w.freed(reader, (WORKER, reply), done, 100, 64, 3_000);
    w
}

fn open(bytes: &[u8]) -> Profile {
    Profile::read("server.hfp".as_ref(), bytes).expect("a whole profile opens")
}

fn report(profiles: Vec<Profile>, options: &Options) -> Report {
    Report::build(profiles, options, &|_| {}).expect("there are profiles")
}

fn text(report: &Report, width: usize) -> String {
    let mut out = Vec::new();
    let style = TextStyle {
        width,
        colour: false,
    };
    report
        .write_text(&mut out, &style)
        .expect("memory takes all");
    String::from_utf8(out).expect("text is UTF-8")
}

fn json(profiles: Vec<Profile>, options: &Options) -> serde_json::Value {
    let options = Options {
        format: Format::Json,
        ..options.clone()
    };
    let mut out = Vec::new();
    report(profiles, &options)
        .write_json(&mut out)
        .expect("memory takes all");
    serde_json::from_slice(&out).expect("JSON is JSON")
}
