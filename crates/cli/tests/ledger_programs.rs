//! Programs as Debian ships them run under `homefree run --ledger` with the same output and exit code, and their accounts
//! hold together.

mod support;

use std::path::{Path, PathBuf};
use support::{Accounted, Run, accounted_with, figure, homefree, installed};

fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let work = dir.path().join("work");
    std::fs::create_dir(&work).expect("a folder");
    let put = |name: &str, text: String| std::fs::write(work.join(name), text).expect("an input");
    let number = |i: u64| i.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1) >> 40;
    put(
        "words.txt",
        (0..20_000)
            .map(|i| format!("word{} and {}\n", i % 977, number(i) % 31))
            .collect(),
    );
    put(
        "hello.cpp",
        "#include <map>\n#include <string>\nint main() { std::map<std::string, int> m; for (int i = 0; i < 9; i++) m[std::to_string(i)] = i; return (int)m.size() - 9; }\n".into(),
    );
    put("work.py", PYTHON.into());
    put("Churn.java", JAVA.into());
    put("work.js", NODE.into());
    (dir, work)
}

const PYTHON: &str = r#"
import json, threading, queue
q = queue.Queue()
def work(n):
    for i in range(200):
        q.put(json.loads(json.dumps({"id": i, "list": list(range(20)), "text": "x" * (i % 50)})))
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for t in threads: t.start()
for t in threads: t.join()
print(sum(len(q.get()["list"]) for _ in range(q.qsize())))
"#;

const JAVA: &str = r#"
import java.util.*;
public class Churn {
    public static void main(String[] args) throws Exception {
        long[] sums = new long[4];
        Thread[] threads = new Thread[4];
        for (int t = 0; t < 4; t++) {
            int me = t;
            threads[t] = new Thread(() -> {
                for (int i = 0; i < 50000; i++) sums[me] += ("value " + i).length();
            });
            threads[t].start();
        }
        for (Thread t : threads) t.join();
        System.gc();
        System.out.println(Arrays.stream(sums).sum());
    }
}
"#;

const NODE: &str = r#"
const { Worker, isMainThread, parentPort } = require('worker_threads');
const zlib = require('zlib');
if (isMainThread) {
  let total = 0, left = 2;
  for (let n = 0; n < 2; n++) new Worker(__filename).on('message', m => {
    total += m;
    if (--left === 0) zlib.gzip(Buffer.alloc(100000, 'abc'), (e, b) => console.log(total, zlib.gunzipSync(b).length));
  });
} else {
  let words = {};
  for (let i = 0; i < 50000; i++) words['w' + i % 1000] = (words['w' + i % 1000] || 0) + 1;
  parentPort.postMessage(Object.keys(words).length);
}
"#;

fn settle(run: Run, work: &Path) -> Run {
    run.dir(work)
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
        .env("HOME", work)
        .env("GIT_AUTHOR_DATE", "2001-01-01T00:00:00Z")
        .env("GIT_COMMITTER_DATE", "2001-01-01T00:00:00Z")
        .limit(120)
}

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
    bash: "bash", ["-c", "declare -A a; while read w _; do a[$w]=$((a[$w]+1)); done < words.txt; echo ${#a[@]}; (exit 9); echo $?; exit 6"];
    curl: "curl", ["-s", "-o", "copy", "file:///etc/passwd", "-w", "%{http_code}"];
    gcc: "gcc", ["-O2", "-S", "-o", "-", "-x", "c", "/dev/null"];
    gpp: "g++", ["-O1", "-S", "-o", "-", "hello.cpp"];
    git: "sh", ["-c", "git init -q r && cd r && git config user.name n && git config user.email e && cp ../*.txt . && git add . && git commit -qm m && git log --format=%H%s --stat && git gc -q && git fsck"];
    grep_nothing: "grep", ["no such words", "words.txt"];
    java: "java", ["Churn.java"];
    node: "node", ["work.js"];
    openssl: "openssl", ["dgst", "-sha256", "words.txt"];
    perl: "perl", ["-ne", "$n{(split)[0]}++; END { print join(',', map { \"$_=$n{$_}\" } sort keys %n), \"\\n\" }", "words.txt"];
    python: "/usr/bin/python3", ["work.py"];
    sort_parallel: "sort", ["--parallel=2", "-S", "64K", "-T", ".", "words.txt"];
    sqlite: "sqlite3", [":memory:", "create table t(a integer primary key, b text); with recursive n(i) as (select 1 union all select i+1 from n where i<5000) insert into t select i, 'row ' || (i % 77) from n; create index x on t(b); select b, count(*) from t group by b order by b limit 5;"];
    xz: "xz", ["-T2", "--block-size=65536", "-c", "words.txt"];
    zstd: "zstd", ["-q", "-T2", "-c", "words.txt"];
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
