//! Programs as Debian ships them run under `homefree run --ledger` with the same output and exit code, and their accounts
//! hold together.

mod support;

use support::{Accounted, Run, accounted_with, figure, homefree, installed, place, settle};

/// The account of each process holds together.
#[track_caller]
fn holds_together(run: &Accounted) {
    for process in run.others().iter().chain([&run.json["process"]]) {
        if process["exact"] != true {
            continue;
        }
        let inherited = process["inherited"].as_u64().unwrap_or(0);
        let held = inherited + figure(process, "allocated") - figure(process, "freed");
        assert_eq!(figure(process, "current"), held, "{process:#}");
        assert!(figure(process, "peak") >= held, "{process:#}");
    }
}

#[track_caller]
fn unchanged(program: &str, args: &[&str]) {
    let Some(path) = installed(program) else {
        return;
    };
    let (_plain, work) = place();
    let plain = settle(Run::new(&path).args(args), &work).run();
    let (_dir, work) = place();
    let run = accounted_with(&[], &path, args, |run| settle(run, &work));
    assert_eq!(run.ran.code(), plain.code(), "{}", run.ran.err());
    assert!(
        run.ran.stdout == plain.stdout && run.ran.stderr == plain.stderr,
        "output differs\nplain: {}{}\ncounted: {}{}",
        plain.out(),
        plain.err(),
        run.ran.out(),
        run.ran.err()
    );
    assert!(figure(&run.json["process"], "peak") > 0, "{:#}", run.json);
    holds_together(&run);
}

macro_rules! unchanged {
    ($($test:ident: $program:literal, $args:expr;)*) => {
        $(#[test] fn $test() { unchanged($program, &$args); })*
    };
}

unchanged! {
    bash: "bash", ["-c", "declare -A a; while read w _; do a[$w]=$((a[$w]+1)); done < in/words.txt; echo ${#a[@]}; (exit 9); echo $?; exit 6"];
    curl: "curl", ["-s", "-o", "copy", "file:///etc/passwd", "-w", "%{http_code}"];
    gcc: "gcc", ["-O2", "-S", "-o", "-", "-x", "c", "/dev/null"];
    gpp: "g++", ["-O1", "-S", "-o", "-", "in/sub/shapes.cpp"];
    git: "sh", ["-c", "git init -q r && cd r && git config user.name n && git config user.email e && cp ../in/*.txt . && git add . && git commit -qm m && git log --format=%H%s --stat && git gc -q && git fsck"];
    grep_nothing: "grep", ["no such words", "in/words.txt"];
    java: "java", ["in/Churn.java"];
    node: "node", ["in/work.js"];
    openssl: "openssl", ["dgst", "-sha256", "in/words.txt"];
    perl: "perl", ["-ne", "$n{(split)[0]}++; END { print join(',', map { \"$_=$n{$_}\" } sort keys %n), \"\\n\" }", "in/words.txt"];
    python: "/usr/bin/python3", ["in/threads.py"];
    sort_parallel: "sort", ["--parallel=2", "-S", "64K", "-T", ".", "in/words.txt"];
    sqlite: "sqlite3", [":memory:", "create table t(a integer primary key, b text); with recursive n(i) as (select 1 union all select i+1 from n where i<5000) insert into t select i, 'row ' || (i % 77) from n; create index x on t(b); select b, count(*) from t group by b order by b limit 5;"];
    xz: "xz", ["-T2", "--block-size=65536", "-c", "in/words.txt"];
    zstd: "zstd", ["-q", "-T2", "-c", "in/words.txt"];
}

#[test]
fn redis_with_io_threads_and_jemalloc_of_its_own() {
    let (Some(server), Some(client)) = (installed("redis-server"), installed("redis-benchmark"))
    else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let (socket, file) = (
        dir.path().join("redis.sock"),
        dir.path().join("account.json"),
    );
    let launcher = Run::new(homefree())
        .args(["run", "--ledger", "--json", "-o"])
        .arg(&file)
        .arg("--")
        .arg(server)
        .args([
            "--port",
            "0",
            "--io-threads",
            "2",
            "--save",
            "",
            "--daemonize",
            "no",
        ])
        .arg("--unixsocket")
        .arg(&socket)
        .dir(dir.path())
        .start();
    let mut launcher = launcher;
    launcher.until("its socket", |_| socket.exists());
    Run::new(client)
        .arg("-s")
        .arg(&socket)
        .args([
            "-q",
            "-n",
            "20000",
            "-c",
            "20",
            "-P",
            "8",
            "-d",
            "100",
            "-t",
            "set,get,lpush",
        ])
        .run()
        .ended_well();
    launcher.signal(rustix::process::Signal::TERM);
    launcher.wait().ended_well();
    let text = std::fs::read_to_string(&file).expect("an account");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(json["process"]["exact"], true, "{json:#}");
    // 20,000 list elements of 100 bytes stay.
    assert!(figure(&json["process"], "current") > 2_000_000, "{json:#}");
}
