//! What programs as Debian ships them are given to work on.

use super::Run;
use std::path::{Path, PathBuf};

/// Small inputs in `<dir>/in`; outputs of the programs go beside it.
fn inputs(dir: &Path) {
    let put = |name: &str, text: String| {
        let path = dir.join("in").join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("an input");
    };
    let number = |i: u64| i.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1) >> 40;
    put(
        "numbers.txt",
        (0..20_000).map(|i| format!("{}\n", number(i))).collect(),
    );
    put(
        "words.txt",
        (0..20_000)
            .map(|i| format!("word{} and {}\n", i % 977, number(i) % 31))
            .collect(),
    );
    put(
        "table.json",
        format!(
            "[{}]",
            (0..2000)
                .map(|i| format!("{{\"id\":{i},\"tag\":\"t{}\"}}", i % 7))
                .collect::<Vec<_>>()
                .join(",")
        ),
    );
    put(
        "sub/hello.c",
        "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n".into(),
    );
    put("sub/shapes.cpp", "#include <map>\n#include <string>\n#include <vector>\nint main() { std::map<std::string, std::vector<int>> m; for (int i = 0; i < 9; i++) m[std::to_string(i)].push_back(i); return (int)m.size() - 9; }\n".into());
    put("Makefile", "all: a b\na b:\n\t@echo making $@\n".into());
    put(
        "sum.bc",
        "for (i = 0; i < 300; i++) x = x * 3 + i\nx\nquit\n".into(),
    );
    put(
        "threads.py",
        include_str!("../../../../tests/programs/threads.py").into(),
    );
    put(
        "Churn.java",
        include_str!("../../../../tests/programs/Churn.java").into(),
    );
    put(
        "work.js",
        include_str!("../../../../tests/programs/work.js").into(),
    );
}

/// A fresh directory with the inputs, under the same name for the plain and the other run.
pub fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let work = dir.path().join("work");
    inputs(&work);
    (dir, work)
}

/// The same surroundings for every run.
pub fn settle(run: Run, work: &Path) -> Run {
    run.dir(work)
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
        .env("HOME", work)
        .env("GIT_AUTHOR_DATE", "2001-01-01T00:00:00Z")
        .env("GIT_COMMITTER_DATE", "2001-01-01T00:00:00Z")
        .limit(120)
}
