//! What reports say.

use super::{MAIN, READER, WORKER, json, open, report, server, text};
use crate::report::{By, Options};
use crate::{Profile, Regex};
use homefree_wire::records::{role_kind, tag};
use homefree_wire::{BankValue, SiteValue, bank, node};

#[test]
fn totals_are_the_sums() {
    let report = report(vec![open(&server(1).finish())], &Options::default());
    let t = report.totals();
    assert_eq!(
        (t.allocations, t.frees_home, t.frees_remote),
        (1_550, 540, 1_000)
    );
    assert_eq!(t.allocated_bytes, 50 * 100 + 1_000 * 2_048 + 500 * 64);
    assert_eq!((t.live, t.live_bytes), (10, 10 * 2_048));
    assert_eq!(t.threads, 10);
    assert!(t.live_at_exit);
    assert_eq!(t.errors, None);
}

#[test]
fn flows_are_ranked_with_roles_sites_and_lifetimes() {
    let text = text(
        &report(vec![open(&server(1).finish())], &Options::default()),
        100,
    );
    let first = text.find("reader-* → worker-*").expect("the larger flow");
    let second = text.find("worker-* → reader-*").expect("the smaller flow");
    assert!(first < second, "{text}");
    for part in [
        "90.0%",
        "1.8 MiB",
        "1.3 ms",
        "libparse.so.1+0x2ff",
        "server+0x9ff",
        "Live at exit",
    ] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
    assert!(
        text.contains("/usr/lib/libparse.so.1 is not there"),
        "missing symbols are said\n{text}"
    );
}

#[test]
fn profiles_of_the_same_build_merge() {
    let mut moved = server(2);
    moved.text(tag::LABEL, "run=2");
    let profiles = || vec![open(&server(1).finish()), open(&server(2).finish())];
    let json = json(profiles(), &Options::default());
    assert_eq!(json["flows"].as_array().map(Vec::len), Some(2));
    assert_eq!(json["flows"][0]["count"], 1_800);
    assert_eq!(json["totals"]["threads"], 20);
    assert_eq!(json["roles"].as_array().map(Vec::len), Some(3));
    assert_eq!(json["profiles"].as_array().map(Vec::len), Some(2));
}

#[test]
fn another_build_does_not_merge() {
    let mut other = crate::synthetic::Writer::new(3);
    other.module(
        1,
        (0x10_0000, 0x20_0000),
        &[8; 20],
        "/opt/server/bin/server",
    );
    other.role(WORKER, role_kind::NAME, "worker-*", 0);
    let stack = other.stack(&[0x10_0900, 0x10_0a00]);
    let thread = other.thread(WORKER);
    other.freed(thread, (WORKER, stack), stack, 5, 8, 100);
    let profiles = vec![open(&server(1).finish()), open(&other.finish())];
    let json = json(profiles, &Options::default());
    assert_eq!(json["flows"].as_array().map(Vec::len), Some(3));
}

#[test]
fn home_flows_are_detail_of_home_frees_and_roles_count_both_sides() {
    let mut w = server(1);
    let stack = w.stack(&[0x10_0100, 0x10_0b00]);
    let thread = w.thread(WORKER);
    w.allocated(thread, stack, 30, 30, 8);
    w.freed(thread, (WORKER, stack), stack, 30, 8, 50);
    w.last_flow_is_home();
    let json = json(vec![open(&w.finish())], &Options::default());
    assert_eq!(json["totals"]["frees_home"], 570);
    assert_eq!(json["totals"]["frees_remote"], 1_000);
    assert_eq!(json["flows"].as_array().map(Vec::len), Some(2));
    assert_eq!(json["home_flows"][0]["count"], 30);
    let roles = json["roles"].as_array().expect("a list");
    let reader = roles
        .iter()
        .find(|r| r["name"] == "reader-*")
        .expect("a role");
    assert_eq!(
        (&reader["frees_remote"], &reader["freed_by_others"]),
        (&100.into(), &900.into())
    );
    assert_eq!(
        (&reader["allocations"], &reader["frees_home"]),
        (&1_000.into(), &90.into())
    );
}

#[test]
fn json_has_what_its_page_promises() {
    let json = json(vec![open(&server(1).finish())], &Options::default());
    assert_eq!(json["version"], 1);
    for key in [
        "allocations",
        "allocated_bytes",
        "frees_home",
        "frees_remote",
        "frees_unknown",
        "threads",
    ] {
        assert!(json["totals"][key].is_u64(), "{key}");
    }
    let flow = &json["flows"][0];
    assert_eq!(flow["count"], 900);
    assert_eq!(flow["bytes"], 900 * 2_048);
    assert_eq!(
        (&flow["alloc_role"], &flow["free_role"]),
        (&"reader-*".into(), &"worker-*".into())
    );
    let stack = flow["alloc_stack"].as_array().expect("a list");
    assert_eq!(stack.len(), 3);
    assert_eq!(stack[0]["module"], "/usr/lib/libparse.so.1");
    assert_eq!(stack[0]["offset"], 0x2ff);
    for key in ["function", "file", "line", "inlined"] {
        assert!(stack[0].get(key).is_some(), "{key}");
    }
    assert_eq!(flow["alloc_stack_end"], "whole");
    assert!(flow["lifetimes"]["median_ns"].is_u64());
    assert_eq!(json["modules"][0]["symbols"], false);
    let page = include_str!("../../../../docs/json.md");
    let mut keys = std::collections::BTreeSet::new();
    collect_keys(&json, &mut keys);
    for key in keys {
        assert!(
            page.contains(&format!("`{key}`")),
            "docs/json.md does not tell of {key}"
        );
    }
}

fn collect_keys(value: &serde_json::Value, keys: &mut std::collections::BTreeSet<String>) {
    match value {
        serde_json::Value::Object(map) => {
            for (key, value) in map {
                keys.insert(key.clone());
                collect_keys(value, keys);
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|v| collect_keys(v, keys)),
        _ => {}
    }
}

#[test]
fn filters_choose_rows_and_leave_the_totals() {
    let with = |change: &dyn Fn(&mut Options)| {
        let mut options = Options::default();
        change(&mut options);
        json(vec![open(&server(1).finish())], &options)
    };
    let counts = |json: &serde_json::Value| -> Vec<u64> {
        let flows = json["flows"].as_array().expect("a list");
        flows.iter().filter_map(|f| f["count"].as_u64()).collect()
    };
    let regex = |text: &str| Some(Regex::new(text).expect("a regex"));
    let all = with(&|_| {});
    assert_eq!(counts(&all), [900, 100]);
    let site = with(&|o| o.site = regex("libparse"));
    assert_eq!(counts(&site), [900]);
    assert_eq!(site["totals"], all["totals"]);
    assert_eq!(counts(&with(&|o| o.thread = regex("^main$"))), [0; 0]);
    assert_eq!(counts(&with(&|o| o.thread = regex("^reader"))), [900, 100]);
    assert_eq!(counts(&with(&|o| o.min_bytes = 10_000)), [900]);
    assert_eq!(counts(&with(&|o| o.top = Some(1))), [900]);
}

#[test]
fn rows_by_site_and_role() {
    let by = |by| {
        let options = Options {
            by,
            ..Options::default()
        };
        text(&report(vec![open(&server(1).finish())], &options), 100)
    };
    let free = by(By::FreeSite);
    assert!(
        free.contains("1,000  100.0%"),
        "both flows end at one site\n{free}"
    );
    assert!(free.contains("reader-* → worker-* 90.0%, 1 more"), "{free}");
    let alloc = by(By::AllocSite);
    assert!(
        alloc.contains("REMOTE") && alloc.contains("18.2%"),
        "100 of 550\n{alloc}"
    );
    let role = by(By::Role);
    assert!(role.contains("worker-* → reader-*"), "{role}");
    assert!(!role.contains("alloc  "), "{role}");
}

#[test]
fn every_width_is_kept() {
    let mut w = server(1);
    w.role(4, role_kind::NAME, "日本語のとても長いスレッドの名前-*", 3);
    let long = w.stack(&[0x10_0100 | node::CUT, 0x66]);
    let thread = w.thread(4);
    w.allocated(thread, long, 1_000_000, 0, 1 << 20);
    w.freed(thread, (4, long), long, 999_999, 1 << 20, 90_000_000_000);
    let bytes = w.finish();
    for by in [By::Flow, By::AllocSite, By::FreeSite, By::Role] {
        let options = Options {
            by,
            full_stacks: true,
            ..Options::default()
        };
        let report = report(vec![open(&bytes)], &options);
        for width in 40..=200 {
            for line in text(&report, width).lines() {
                let columns = unicode_width::UnicodeWidthStr::width(line);
                assert!(columns <= width, "{columns} > {width}: {line}");
            }
        }
    }
}

#[test]
fn rare_events_are_said_and_sampling_shows_its_error() {
    let mut w = server(1);
    w.header.sample_bytes = 512 << 10;
    let bank = w.bank(BankValue {
        state: bank::ARCHIVE,
        role: MAIN,
        unknown_frees: 3,
        late: 4,
        lost: 5,
        lost_allocs: 2,
        lost_bytes: 20,
        ..BankValue::default()
    });
    let stack = w.stack(&[0x10_0100 | node::CUT, 0x10_0800]);
    w.site(
        bank,
        SiteValue {
            node: stack,
            allocs: 448,
            bytes: 1,
            var_allocs: 10_000f64.to_bits(),
            ..SiteValue::default()
        },
    );
    let report = report(vec![open(&w.finish())], &Options::default());
    let t = report.totals();
    assert_eq!((t.allocations, t.frees_unknown, t.lost), (2_000, 3, 5));
    assert_eq!(t.errors.map(|e| e.allocations), Some(196.0));
    let text = text(&report, 120);
    for part in [
        "±9.8%",
        "4 events after a thread's end",
        "5 events had no room",
        "512.0 KiB",
        "cut stacks: 22.4% of allocations",
    ] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
}

#[test]
fn nothing_remote_is_said_in_words() {
    let mut w = crate::synthetic::Writer::new(1);
    w.role(READER, role_kind::NAME, "reader", 0);
    let stack = w.stack(&[0x10]);
    let thread = w.thread(READER);
    w.allocated(thread, stack, 10, 10, 10);
    let text = text(&report(vec![open(&w.finish())], &Options::default()), 100);
    assert!(
        text.contains("No memory was freed away from home."),
        "{text}"
    );
}

#[test]
fn no_profile_is_an_error_with_advice() {
    let none: Vec<Profile> = Vec::new();
    let error = crate::Report::build(none, &Options::default(), &|_| {});
    assert!(error.is_err_and(|e| e.to_string().contains("homefree record")));
}

#[test]
fn a_profile_given_twice_is_counted_once() {
    let copy = Profile::read("copy.hfp".as_ref(), &server(1).finish()[..]).expect("opens");
    let all = report(
        vec![open(&server(1).finish()), copy, open(&server(2).finish())],
        &Options::default(),
    );
    assert_eq!(all.totals().frees_remote, 2_000);
    let said = all.warnings().iter().filter(|w| w.contains("copy.hfp"));
    let said: Vec<_> = said.collect();
    assert_eq!(
        said,
        ["copy.hfp: the same profile as server.hfp, so it is counted once"]
    );
    assert!(text(&all, 100).contains("2 profiles"));
    // Without an id there is no telling.
    let nameless = || {
        let mut w = server(1);
        w.header.id = 0;
        open(&w.finish())
    };
    let both = report(vec![nameless(), nameless()], &Options::default());
    assert_eq!(both.totals().frees_remote, 2_000);
}

#[test]
fn a_mixture_of_sampled_and_exact_profiles_says_so() {
    let mut sampled = server(2);
    sampled.header.sample_bytes = 64 << 10;
    let profiles = vec![open(&server(1).finish()), open(&sampled.finish())];
    let text = text(&report(profiles, &Options::default()), 100);
    assert!(text.contains("1 of 2 sampled, every 64.0 KiB"), "{text}");
}

#[test]
fn a_duration_that_may_be_longer_says_so() {
    let says = |w: crate::synthetic::Writer| {
        text(&report(vec![open(&w.finish())], &Options::default()), 100)
    };
    assert!(says(server(1)).contains("pid 1 · 12 s"));
    let mut killed = server(1);
    killed.header.state = homefree_wire::state::RUNNING;
    assert!(says(killed).contains("pid 1 · ≥ 12 s"));
}

/// A profile with allocations, all freed at home.
fn homely() -> crate::synthetic::Writer {
    let mut w = crate::synthetic::Writer::new(4);
    w.role(MAIN, role_kind::MAIN, "homely", 0);
    let stack = w.stack(&[0x10_0100]);
    let main = w.thread(MAIN);
    w.allocated(main, stack, 5, 5, 8);
    w
}

#[test]
fn nothing_freed_away_from_home_is_said_only_where_it_is_known() {
    const NONE: &str = "No memory was freed away from home.";
    let says = |profile, options: &Options| text(&report(vec![profile], options), 100);
    let all = Options::default();
    let whole = homely().finish();
    assert!(says(open(&whole), &all).contains(NONE));

    let cut = says(open(&whole[..whole.len() - 10]), &all);
    assert!(!cut.contains(NONE), "{cut}");
    assert!(cut.contains("none in the part that could be read"), "{cut}");
    let mut damaged = whole.clone();
    let last = damaged.len() - homefree_wire::PAGE;
    damaged[last..last + 4].fill(0xee);
    let damaged = says(open(&damaged), &all);
    assert!(!damaged.contains(NONE), "{damaged}");
    assert!(damaged.contains("frees may be missing"), "{damaged}");

    let mut lost = homely();
    lost.bank(BankValue {
        state: bank::LIVE,
        role: MAIN,
        lost: 3,
        lost_remote: 3,
        ..BankValue::default()
    });
    let lost = says(open(&lost.finish()), &all);
    assert!(lost.contains("No remote free has a site"), "{lost}");

    let no_row = Options {
        top: Some(0),
        ..Options::default()
    };
    let no_row = says(open(&server(1).finish()), &no_row);
    assert!(!no_row.contains(NONE), "{no_row}");
}
