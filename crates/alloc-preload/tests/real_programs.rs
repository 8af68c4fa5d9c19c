//! Programs as Debian ships them say the same and end the same with the library as without.

mod support;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{Ran, installed, library, limited, run};

/// Runs a shell line in a directory of its own, without and with the library.
#[track_caller]
fn same(program: &str, line: &str) -> Option<Ran> {
    installed(program)?;
    let mut answers = [false, true].map(|ours| {
        let dir = tempfile::tempdir().expect("a directory");
        inputs(dir.path());
        let mut command = limited(120, Path::new("/bin/sh"), &["-c", line]);
        command
            .current_dir(dir.path())
            .env("LC_ALL", "C")
            .env("HOME", "/nonexistent");
        if ours {
            command.env("LD_PRELOAD", library());
        }
        run(&mut command)
    });
    assert_eq!(answers[0], answers[1], "{line}");
    assert_eq!(answers[0].code, 0, "{line}: {:?}", answers[0]);
    Some(std::mem::replace(
        &mut answers[0],
        Ran {
            code: 0,
            out: String::new(),
            err: String::new(),
        },
    ))
}

fn inputs(dir: &Path) {
    let put = |name: &str, text: String| std::fs::write(dir.join(name), text).expect("an input");
    let number = |i: u64| i.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1) >> 40;
    put(
        "numbers.txt",
        (0..50_000)
            .map(|i| format!("{} word{}\n", number(i), i % 977))
            .collect(),
    );
    put(
        "table.json",
        format!(
            "[{}]",
            (0..5000)
                .map(|i| format!("{{\"id\":{i},\"tag\":\"t{}\"}}", i % 7))
                .collect::<Vec<_>>()
                .join(",")
        ),
    );
    put(
        "many.cpp",
        format!(
            "#include <map>\n#include <string>\n#include <vector>\n#include <regex>\n{}int main() {{ return 0; }}\n",
            (0..200).map(|i| format!("template <int N> struct S{i} {{ std::map<std::string, std::vector<int>> m; }}; S{i}<{i}> s{i};\n")).collect::<String>()
        ),
    );
    put(
        "Churn.java",
        include_str!("../../../tests/programs/Churn.java").into(),
    );
    put(
        "work.js",
        include_str!("../../../tests/programs/work.js").into(),
    );
}

#[test]
fn python() {
    same(
        "python3",
        "python3 -c 'import json, threading
t = json.load(open(\"table.json\"))
def work():
    for i in range(20): json.loads(json.dumps(t))
ts = [threading.Thread(target=work) for _ in range(4)]
[x.start() for x in ts]; [x.join() for x in ts]
print(sum(x[\"id\"] for x in t))'",
    );
}

#[test]
fn sqlite() {
    same(
        "sqlite3",
        "sqlite3 x.db 'create table t(a, b); with recursive c(x) as (select 1 union all select x+1 from c where x<200000) \
         insert into t select x, x * 7919 % 1000 || \"text\" from c; create index i on t(b); \
         select b, count(*), sum(a) from t group by b order by 3 desc limit 20'",
    );
}

#[test]
fn compilers() {
    same(
        "g++",
        "g++ -std=c++17 -O1 -o many many.cpp && ./many && cksum < many",
    );
}

#[test]
fn java() {
    same("javac", "javac Churn.java && java Churn");
}

#[test]
fn node() {
    same("node", "node work.js");
}

#[test]
fn text_tools() {
    same(
        "perl",
        "perl -ne '$s{$1} += $_ if /(word\\d+)/; END { print join \",\", map { \"$_=$s{$_}\" } sort keys %s }' numbers.txt",
    );
    same(
        "sort",
        "sort --parallel=4 -k2 numbers.txt | cksum; grep -c word9 numbers.txt; grep '' /dev/null || true; awk '{s+=$1} END {print s}' numbers.txt",
    );
    same(
        "xz",
        "xz -T4 -k numbers.txt && xz -dc numbers.txt.xz | cksum",
    );
    same(
        "git",
        "git init -q . && git add . && git -c user.name=a -c user.email=b commit -q -m c && git ls-files | wc -l",
    );
    same(
        "bash",
        "bash -c 'for i in $(seq 2000); do a[$i]=$i$i; done; echo ${#a[@]} ${a[77]}'",
    );
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn redis_with_io_threads() {
    let (Some(server), Some(_)) = (installed("redis-server"), installed("redis-benchmark")) else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("socket");
    let mut command = Command::new(server);
    command.args([
        "--port",
        "0",
        "--save",
        "",
        "--io-threads",
        "4",
        "--io-threads-do-reads",
        "yes",
        "--unixsocket",
    ]);
    command
        .arg(&socket)
        .current_dir(dir.path())
        .env("LD_PRELOAD", library())
        .stdout(Stdio::null());
    let _server = Server(command.spawn().expect("a server"));
    let end = Instant::now() + Duration::from_secs(30);
    while !socket.exists() {
        assert!(Instant::now() < end, "the server does not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    let ask = |args: &[&str]| {
        let mut command = limited(60, Path::new("redis-cli"), &["-s"]);
        run(command.arg(&socket).args(args))
    };
    let mut bench = limited(100, Path::new("redis-benchmark"), &["-s"]);
    bench.arg(&socket).args([
        "-n",
        "2000",
        "-q",
        "-c",
        "40",
        "-t",
        "set,get,lpush,lpop,sadd,hset",
        "-d",
        "200",
    ]);
    assert_eq!(run(&mut bench).code, 0);
    // Forks, and writes from the child.
    assert!(ask(&["bgsave"]).out.contains("started"));
    assert_eq!(ask(&["set", "a", "b"]).out, "OK\n");
    assert_eq!(ask(&["get", "a"]).out, "b\n");
}
