//! The code of the short ways, as built for users: what is in it is written down in `golden/census.txt`, so that a
//! change shows in review, and some things must never be in it.
//!
//! `HOMEFREE_BLESS=1 cargo test -p homefree-ledger --test golden` writes the file anew.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod artifacts;
mod census;

use artifacts::artifact;
use census::{Artifact, Census};
use std::fmt::Write;
use std::path::Path;

/// An artifact's entry points: what they are called there and here, the functions of the allocator behind, and how
/// many instructions they may have in all.
struct Entries {
    artifact: Artifact,
    name: &'static str,
    functions: [(&'static str, &'static str, &'static str, usize); 2],
}

#[test]
fn the_short_ways_are_short() {
    let executable = artifact("executable", "executable", "");
    let plugin = artifact("plugin", "libplugin.so", "--cfg plugin_of_bytes");
    let counting = artifact("plugin", "libplugin.so", "");
    let all = [
        Entries {
            artifact: Artifact::read(&executable),
            name: "executable",
            functions: [
                ("12___rust_alloc", "alloc", "malloc", 16),
                ("14___rust_dealloc", "dealloc", "free", 4),
            ],
        },
        Entries {
            artifact: Artifact::read(&plugin),
            name: "cdylib",
            functions: [
                ("12___rust_alloc", "alloc", "malloc", 17),
                ("14___rust_dealloc", "dealloc", "free", 6),
            ],
        },
        Entries {
            artifact: Artifact::read(&counting),
            name: "cdylib, with counts",
            functions: [
                ("12___rust_alloc", "alloc", "malloc", 18),
                ("14___rust_dealloc", "dealloc", "free", 7),
            ],
        },
    ];
    let mut text = String::new();
    for Entries {
        artifact,
        name,
        functions,
    } in &all
    {
        for (symbol, function, behind, most) in functions {
            let census = artifact.short_way(symbol);
            holds(&census, behind, *most);
            writeln!(text, "{name}: {function}: {census}").unwrap();
        }
    }
    compare(&text);
}

/// What must hold whichever compiler built it.
fn holds(census: &Census, behind: &str, most: usize) {
    assert_eq!(census.locked, 0, "atomic read-modify-write: {census}");
    assert_eq!(census.calls, [behind], "{census}");
    assert!(census.instructions <= most, "more than {most}: {census}");
}

fn compare(text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/census.txt");
    if std::env::var_os("HOMEFREE_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, golden, "see the top of this file");
}
