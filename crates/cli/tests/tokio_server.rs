//! A tokio server under `record`: connections, tasks and blocking work that hands memory from thread to thread.
//!
//! No test harness: with the argument `serve` this program is the server, otherwise the test.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use support::{Run, homefree, report_of};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};

const CLIENTS: usize = 8;
const REQUESTS: usize = 50;

fn main() {
    if std::env::args().nth(1).as_deref() == Some("serve") {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(serve());
    } else {
        a_tokio_server_runs_unchanged();
        println!("test a_tokio_server_runs_unchanged ... ok");
    }
}

/// Serves CLIENTS connections, then ends.
async fn serve() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    println!("port {}", listener.local_addr().expect("an address").port());
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let (stream, _) = listener.accept().await.expect("a client");
        clients.push(tokio::spawn(client(stream)));
    }
    for client in clients {
        client.await.expect("the client's task ends well");
    }
    println!("served");
}

/// Answers every line with its length and its letters sorted by a blocking thread.
async fn client(stream: tokio::net::TcpStream) {
    let (read, mut write) = stream.into_split();
    let mut lines = tokio::io::BufReader::new(read).lines();
    while let Some(line) = lines.next_line().await.expect("a line") {
        let answer = tokio::task::spawn_blocking(move || sorted(&line));
        let answer = answer.await.expect("the blocking work ends well");
        write.write_all(&answer).await.expect("the client listens");
    }
}

fn sorted(line: &str) -> Vec<u8> {
    let mut letters = line.as_bytes().to_vec();
    letters.sort();
    let mut answer = format!("{} ", letters.len()).into_bytes();
    answer.extend(letters);
    answer.push(b'\n');
    answer
}

fn a_tokio_server_runs_unchanged() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut launcher = Run::new(homefree())
        .args(["record", "-o", "main.hfp", "--"])
        .arg(std::env::current_exe().expect("this program"))
        .arg("serve")
        .dir(dir.path())
        .start();
    launcher.wait_for_output("port ");
    let port: u16 = launcher.output()["port ".len()..]
        .trim()
        .parse()
        .expect("a port");
    let clients: Vec<_> = (0..CLIENTS)
        .map(|n| std::thread::spawn(move || talk(port, n)))
        .collect();
    for client in clients {
        client.join().expect("a client that is answered");
    }
    let ran = launcher.wait().ended_well();
    assert!(ran.out().ends_with("served\n"), "{}", ran.out());

    let report = report_of(&[dir.path().join("main.hfp")], &[]);
    let requests = (CLIENTS * REQUESTS) as u64;
    assert_eq!(report.total("frees_unknown"), 0);
    assert!(report.total("allocations") > 4 * requests);
    // Each answer is made on a blocking thread and freed where the connection's task runs; each line the other way.
    let flows = report.flows();
    let pools = flows
        .iter()
        .filter(|f| f.alloc_role.starts_with("tokio") || f.free_role.starts_with("tokio"));
    let between_pools: u64 = pools.map(|f| f.count).sum();
    assert!(between_pools >= requests, "{between_pools} of {flows:#?}");
}

fn talk(port: u16, n: usize) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the server");
    let mut answers = BufReader::new(stream.try_clone().expect("a second handle")).lines();
    for i in 0..REQUESTS {
        writeln!(stream, "cab{n}").expect("the server listens");
        let answer = answers.next().expect("an answer").expect("a line");
        assert_eq!(answer, format!("4 {n}abc"), "request {i}");
    }
}
