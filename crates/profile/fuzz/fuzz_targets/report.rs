//! Any bytes through everything that reads a profile: open, merge, text, JSON, counters.
//!
//! An input that starts with an even byte is the file itself; with an odd one it is a list of edits
//! (three bytes of place, one of what to do, one of value) to a sound profile, which reach deeper.
#![no_main]

#[allow(dead_code)]
#[path = "../../src/synthetic.rs"]
mod synthetic;

use homefree_profile::{By, Format, Options, Profile, Report, TextStyle};
use homefree_wire::records::role_kind;
use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;

fn sound() -> &'static [u8] {
    static SOUND: OnceLock<Vec<u8>> = OnceLock::new();
    SOUND.get_or_init(|| {
        let mut w = synthetic::Writer::new(1);
        w.module(1, (0x10_0000, 0x20_0000), &[7; 20], "/opt/x");
        w.module(2, (0x18_0000, 0x30_0000), &[], "libx.so (deleted)");
        w.role(1, role_kind::MAIN, "main", 0);
        w.role(2, role_kind::NAME, "worker-*", 7);
        w.role(3, role_kind::START, "", 1);
        let stacks: Vec<u32> = (0..300)
            .map(|i| w.stack(&[0x10_0000 + i, 0x18_0000 + i, 0x40_0000 + i]))
            .collect();
        let threads = [w.thread(1), w.thread(2)];
        for (i, &stack) in stacks.iter().enumerate() {
            let i = i as u64;
            w.allocated(threads[0], stack, i + 1, i / 2, i);
            if i % 9 == 0 {
                w.freed(threads[1], (1, stack), stacks[0], i / 2, i, i * 1000);
            }
        }
        w.finish()
    })
}

fn edited(edits: &[u8]) -> Vec<u8> {
    let mut file = sound().to_vec();
    for edit in edits.chunks_exact(5) {
        let at = u32::from_le_bytes([edit[0], edit[1], edit[2], 0]) as usize % file.len();
        match edit[3] % 6 {
            0 => file[at] = edit[4],
            1 => file[at] ^= 1 << (edit[4] % 8),
            2 => {
                let end = (at + 1 + edit[4] as usize).min(file.len());
                file[at..end].fill(0xff);
            }
            3 => {
                let page = &sound()[edit[4] as usize * 4096 % sound().len()..][..4096];
                let to = at / 4096 * 4096;
                let len = (file.len() - to).min(4096);
                file[to..to + len].copy_from_slice(&page[..len]);
            }
            4 if at > 4096 => file.truncate(at),
            _ => file[at] = file[at].wrapping_add(edit[4]),
        }
    }
    file
}

fuzz_target!(|data: &[u8]| {
    let Some((kind, rest)) = data.split_first() else {
        return;
    };
    let file = if kind % 2 == 0 { rest.to_vec() } else { edited(rest) };
    let open = || Profile::read("fuzzed".as_ref(), &file[..]);
    let by = [By::Flow, By::AllocSite, By::FreeSite, By::Role][usize::from(kind / 2 % 4)];
    if let Ok(profile) = open() {
        let text = Options {
            by,
            full_stacks: true,
            ..Options::default()
        };
        let report = Report::build(vec![profile], &text, &|_| {}).expect("one profile");
        let style = TextStyle {
            width: 40 + usize::from(*kind) % 160,
            colour: false,
        };
        report
            .write_text(&mut std::io::sink(), &style)
            .expect("a sink takes all");
    }
    let json = Options {
        format: Format::Json,
        ..Options::default()
    };
    let twice: Vec<Profile> = [open(), open()].into_iter().flatten().collect();
    if !twice.is_empty() {
        let report = Report::build(twice, &json, &|_| {}).expect("two profiles");
        report
            .write_json(&mut std::io::sink())
            .expect("a sink takes all");
    }
});
