//! Whatever the bytes are: an answer, never a panic, never an endless loop.

use super::{json, open, report, server, text};
use crate::live::Counters;
use crate::{OpenError, Options, Profile, WarningKind};
use homefree_wire::PAGE;
use proptest::prelude::*;

fn read(bytes: &[u8]) -> Result<Profile, OpenError> {
    Profile::read("damaged.hfp".as_ref(), bytes)
}

/// Everything that can be asked of a file.
fn exercise(bytes: &[u8]) {
    if let Ok(profile) = read(bytes) {
        let all = Options {
            full_stacks: true,
            ..Options::default()
        };
        text(&report(vec![profile], &all), 80);
        if let Ok(profile) = read(bytes) {
            json(vec![profile], &Options::default());
        }
    }
}

#[test]
fn what_is_no_profile_is_told_apart() {
    let whole = server(1).finish();
    let says = |bytes: &[u8]| read(bytes).expect_err("not readable").to_string();
    assert!(says(b"").contains("empty"));
    assert!(says(&[0; 8192]).contains("empty"));
    assert!(says(b"\x7fELF").contains("not a Homefree profile"));
    assert!(says(&whole[..100]).contains("cut inside its header"));
    assert!(says(&whole[..4000]).contains("cut inside its header"));
    let mut newer = whole.clone();
    newer[8] = 9;
    assert!(says(&newer).contains("version 9"));
    let mut header = whole.clone();
    header[12..16].fill(0xff);
    assert!(says(&header).contains("header is damaged"));
    for error in [says(b""), says(&newer), says(&header)] {
        assert!(error.starts_with("damaged.hfp: "), "{error}");
    }
    let missing = Profile::open("/no/such.hfp".as_ref()).expect_err("is not there");
    assert!(missing.to_string().contains("/no/such.hfp: cannot be read"));
    assert!(
        Profile::open("/".as_ref()).is_err(),
        "a folder is not a file"
    );
}

#[test]
fn a_cut_file_says_where_and_calls_nothing_live_at_exit() {
    let whole = server(1).finish();
    let pages = (whole.len() / PAGE) as u64;
    assert!(open(&whole).warnings().is_empty());
    let profile = open(&whole[..whole.len() - 10]);
    let kinds: Vec<_> = profile.warnings().iter().map(|w| w.kind.clone()).collect();
    let expected = WarningKind::Truncated {
        page: pages - 1,
        of: pages,
    };
    assert_eq!(kinds, [expected]);
    let report = report(vec![profile], &Options::default());
    assert!(!report.totals().live_at_exit);
    let text = text(&report, 100);
    assert!(text.contains("truncated after page"), "{text}");
    assert!(text.contains("Still live"), "{text}");
    assert!(!text.contains("at exit"), "{text}");
}

#[test]
fn a_damaged_page_loses_only_itself() {
    let mut bytes = server(1).finish();
    let last = bytes.len() - PAGE;
    bytes[last..last + 4].fill(0xee);
    let profile = open(&bytes);
    assert!(matches!(
        profile.warnings()[0].kind,
        WarningKind::Damaged { pages: 1, .. }
    ));
    let report = report(vec![profile], &Options::default());
    assert_eq!(report.totals().frees_remote, 1_000);
}

#[test]
fn pages_past_the_end_and_unwritten_pages_are_not_damage() {
    let mut bytes = server(1).finish();
    bytes.resize(bytes.len() + 3 * PAGE, 0xab);
    assert!(open(&bytes).warnings().is_empty());
    let mut killed = server(1).finish();
    let pages = (killed.len() / PAGE) as u64 + 1;
    killed.resize(killed.len() + PAGE, 0);
    let at = std::mem::offset_of!(homefree_wire::Header, pages);
    killed[at..at + 8].copy_from_slice(&pages.to_le_bytes());
    assert!(open(&killed).warnings().is_empty());
}

#[test]
fn a_cycle_of_callers_ends() {
    let mut w = server(1);
    let a = w.node(0x10_0500, 0);
    let b = w.node(0x10_0600, a + 2);
    let c = w.node(0x10_0700, b);
    assert_eq!(c, a + 2);
    let thread = w.thread(super::WORKER);
    w.allocated(thread, c, 5, 5, 10);
    w.freed(thread, (super::WORKER, b), c, 2, 10, 100);
    exercise(&w.finish());
}

#[test]
fn counters_of_a_file_agree_with_its_report() {
    let bytes = server(77).finish();
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("x.hfp");
    std::fs::write(&path, &bytes).expect("written");
    let counters = Counters::read(&path).expect("a profile");
    let report = report(vec![open(&bytes)], &Options::default());
    let t = report.totals();
    assert_eq!(counters.allocations, t.allocations);
    assert_eq!(counters.frees_home, t.frees_home);
    assert_eq!(counters.frees_remote, t.frees_remote);
    assert_eq!(counters.live_bytes, t.live_bytes);
    assert_eq!((counters.pid, counters.run_id), (77, 0xabc));
    assert!(counters.ended());
    std::fs::write(&path, &bytes[..3000]).expect("written");
    assert_eq!(Counters::read(&path), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_damage_makes_it_panic(
        cut in prop::option::of(0usize..40_000),
        flips in prop::collection::vec((0usize..40_000, any::<u8>()), 0..40),
        words in prop::collection::vec((0usize..5_000, prop::sample::select(vec![0, 1, u32::MAX, 0x8000_0000, 255, 4096])), 0..20),
        splice in prop::option::of((0usize..10, 0usize..10)),
    ) {
        let mut bytes = server(1).finish();
        let len = bytes.len();
        for (at, byte) in flips {
            bytes[at % len] ^= byte;
        }
        for (at, word) in words {
            let at = at * 4 % (len - 4);
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        if let Some((from, to)) = splice {
            let pages = len / PAGE;
            let page = bytes[from % pages * PAGE..][..PAGE].to_vec();
            bytes[to % pages * PAGE..][..PAGE].copy_from_slice(&page);
        }
        if let Some(cut) = cut {
            bytes.truncate(cut % len);
        }
        exercise(&bytes);
    }
}
