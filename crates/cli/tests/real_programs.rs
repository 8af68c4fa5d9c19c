//! Programs as Debian ships them run under `record` with the same output and exit code, and give a sensible report.

mod support;

use std::path::Path;
use support::{Ran, Run, homefree, installed, place, report_of, settle};

/// Runs `program` plain and recorded: same output, same exit code, and a report with at least `threads` threads.
#[track_caller]
fn unchanged(program: &str, args: &[&str], threads: u64) {
    let Some(path) = installed(program) else {
        return;
    };
    let (_plain_dir, work) = place();
    let plain = settle(Run::new(&path).args(args), &work).run();
    let (dir, work) = place();
    let profile = dir.path().join("main.hfp");
    let run = Run::new(homefree())
        .args(["record", "-o"])
        .arg(&profile)
        .arg("--")
        .arg(&path);
    let recorded = settle(run.args(args), &work).run();
    same(&plain, &recorded);
    let report = report_of(&[profile], &[]);
    // Threads that allocate nothing are not seen, and a few programs (gzip) allocate nothing at all.
    assert!(
        report.total("allocations") >= threads,
        "{:#}",
        report.json["totals"]
    );
    assert!(
        report.total("threads") >= threads,
        "{:#}",
        report.json["totals"]
    );
    let known = report.total("frees_home") + report.total("frees_remote");
    assert!(
        known <= report.total("allocations"),
        "{:#}",
        report.json["totals"]
    );
    let unknown = report.total("frees_unknown");
    assert!(
        unknown * 1000 <= known,
        "{unknown} unknown frees of {known}"
    );
}

#[track_caller]
fn same(plain: &Ran, recorded: &Ran) {
    assert_eq!(
        recorded.code(),
        plain.code(),
        "plain: {}\nrecorded: {}",
        plain.err(),
        recorded.err()
    );
    assert!(
        recorded.stdout == plain.stdout,
        "output differs\nplain: {}\nrecorded: {}",
        plain.out(),
        recorded.out()
    );
}

/// `test: program, arguments, threads at least;`
macro_rules! unchanged {
    ($($test:ident: $program:literal, $args:expr, $threads:literal;)*) => {
        $(#[test] fn $test() { unchanged($program, &$args, $threads); })*
    };
}

unchanged! {
    awk: "awk", ["{ n[$1] += length($0) } END { for (i = 0; i < 50; i++) print i, n[\"word\" i] }", "in/words.txt"], 1;
    bash_pipeline: "bash", ["-c", "for i in $(seq 200); do x=$x$i; done; echo ${#x} | cat | sort; grep -c and in/words.txt"], 1;
    bash_script: "bash", ["-c", "declare -A a; while read w _; do a[$w]=$((a[$w]+1)); done < in/words.txt; echo ${#a[@]}; (exit 9); echo $?; exit 6"], 1;
    bc: "bc", ["-q", "in/sum.bc"], 1;
    bzip2: "bzip2", ["-c", "in/words.txt"], 1;
    cat: "cat", ["in/words.txt", "in/numbers.txt"], 1;
    curl: "curl", ["-s", "-o", "copy", "file:///etc/passwd", "-w", "%{http_code}"], 1;
    cut: "cut", ["-d", " ", "-f", "1,3", "in/words.txt"], 1;
    dash: "dash", ["-c", "i=0; while [ $i -lt 500 ]; do i=$((i+1)); s=\"$s $i\"; done; echo $s | wc -w"], 1;
    diff: "diff", ["-u", "in/words.txt", "in/numbers.txt", "--label", "a", "--label", "b"], 1;
    file: "file", ["in/words.txt", "in/table.json", "in/sub/hello.c"], 1;
    find: "find", ["in", "-name", "*.c*", "-size", "-10k"], 1;
    gcc: "gcc", ["-O2", "-S", "-o", "-", "in/sub/hello.c"], 1;
    gcc_links: "sh", ["-c", "gcc in/sub/hello.c -o hello && ./hello"], 1;
    gdb: "gdb", ["-nx", "-batch", "-ex", "print 6 * 7", "-ex", "python print(sum(range(10)))"], 1;
    git: "sh", ["-c", "git init -q r && cd r && git config user.name n && git config user.email e && cp -r ../in . && git add . && git commit -qm m && git log --format=%H%s --stat && git gc -q && git fsck"], 1;
    git_diff: "git", ["diff", "--no-index", "--stat", "in/words.txt", "in/numbers.txt"], 1;
    gpp: "g++", ["-O1", "-S", "-o", "-", "in/sub/shapes.cpp"], 1;
    grep: "grep", ["-c", "-E", "(word1|and 2).*[37]$", "in/words.txt"], 1;
    grep_nothing: "grep", ["no such words", "in/words.txt"], 1;
    gzip: "gzip", ["-nc", "in/words.txt"], 0;
    java: "java", ["in/Churn.java"], 6;
    java_collectors: "java", ["-XX:+UseSerialGC", "-Xmx64m", "-Xint", "-version"], 2;
    java_version: "java", ["--version"], 2;
    jq: "jq", ["-c", "group_by(.tag) | map({tag: .[0].tag, n: length})", "in/table.json"], 1;
    ls: "ls", ["-R", "in"], 1;
    make: "make", ["-j1", "-f", "in/Makefile", "-O"], 1;
    node: "node", ["in/work.js"], 4;
    od: "od", ["-x", "in/numbers.txt"], 1;
    openssl: "openssl", ["dgst", "-sha256", "in/words.txt"], 1;
    perl: "perl", ["-ne", "$n{(split)[0]}++; END { print join(',', map { \"$_=$n{$_}\" } sort keys %n), \"\\n\" }", "in/words.txt"], 1;
    python: "/usr/bin/python3", ["in/threads.py"], 5;
    sed: "sed", ["-E", "s/word([0-9]+)/\\1/g; $!N; P; D", "in/words.txt"], 1;
    sort: "sort", ["-n", "in/numbers.txt"], 1;
    sort_parallel: "sort", ["--parallel=2", "-S", "64K", "-T", ".", "in/words.txt", "in/numbers.txt"], 1;
    sqlite: "sqlite3", [":memory:", "create table t(a integer primary key, b text); with recursive n(i) as (select 1 union all select i+1 from n where i<5000) insert into t select i, 'row ' || (i % 77) from n; create index x on t(b); select b, count(*) from t group by b order by b limit 5;"], 1;
    tar: "tar", ["-cf", "-", "--mtime=@0", "--owner=0", "--group=0", "--sort=name", "in"], 1;
    vim: "vim", ["-u", "NONE", "-N", "-es", "-c", "%s/word/W/g", "-c", "wq! out.txt", "in/words.txt"], 1;
    xz: "xz", ["-T2", "--block-size=65536", "-c", "in/words.txt"], 3;
    zstd: "zstd", ["-q", "-T2", "-c", "in/words.txt"], 1;
}

#[test]
fn redis_with_io_threads() {
    let (Some(server), Some(benchmark)) = (installed("redis-server"), installed("redis-benchmark"))
    else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("redis.sock");
    let profile = dir.path().join("main.hfp");
    let mut launcher = Run::new(homefree())
        .args(["record", "-o"])
        .arg(&profile)
        .arg("--")
        .arg(server)
        .args([
            "--port",
            "0",
            "--io-threads",
            "2",
            "--io-threads-do-reads",
            "yes",
            "--save",
            "",
            "--daemonize",
            "no",
        ])
        .arg("--unixsocket")
        .arg(&socket)
        .dir(dir.path())
        .limit(120)
        .start();
    launcher.until("its socket", |_| socket.exists());
    let client = |args: &[&str]| {
        Run::new(&benchmark)
            .arg("-s")
            .arg(&socket)
            .args(args)
            .run()
            .ended_well();
    };
    client(&[
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
        "set,get,lpush,mset",
    ]);
    // The server answers nothing to SHUTDOWN and closes; a signal ends it in order too.
    launcher.signal(rustix::process::Signal::TERM);
    launcher.wait().ended_well();
    let report = report_of(&[profile], &[]);
    assert!(
        report.total("allocations") > 60_000,
        "{:#}",
        report.json["totals"]
    );
    // main and the second I/O thread; background threads that never allocate are not seen.
    assert!(report.total("threads") >= 2, "{:#}", report.json["totals"]);
    let known = report.total("frees_home") + report.total("frees_remote");
    assert!(
        report.total("frees_unknown") * 1000 <= known,
        "{:#}",
        report.json["totals"]
    );
}

#[test]
fn sqlite_on_disk_leaves_the_same_file() {
    let Some(sqlite) = installed("sqlite3") else {
        return;
    };
    let sql = "pragma page_size=4096; create table t(a, b); with recursive n(i) as (select 1 union all select i+1 from n where i<3000) insert into t select i, hex(i*i) from n; vacuum;";
    let (plain, recorded) = (place(), place());
    settle(Run::new(&sqlite).args(["x.db", sql]), &plain.1)
        .run()
        .ended_well();
    let run = Run::new(homefree())
        .args(["record", "-o", "../main.hfp", "--"])
        .arg(&sqlite);
    settle(run.args(["x.db", sql]), &recorded.1)
        .run()
        .ended_well();
    let read = |work: &Path| std::fs::read(work.join("x.db")).expect("the database");
    assert!(read(&plain.1) == read(&recorded.1));
}
