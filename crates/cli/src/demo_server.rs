//! The server that `homefree demo` records: a reactor that boxes requests for its workers, and workers
//! that box replies for the reactor.

use crate::failure::{Failure, status};
use clap::Args;
use std::hint::black_box;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Name of the hidden subcommand.
pub const NAME: &str = "demo-server";

const WORKERS: usize = 4;
/// Requests without a reply at most: as many as the replies' channel holds, so nobody waits in a circle.
const OPEN: usize = 128;

/// The server that `homefree demo` records
#[derive(Debug, Args)]
pub struct DemoServer {
    /// How long to serve
    #[arg(long, default_value = "1")]
    seconds: u32,
}

/// What the reactor reads and a worker handles.
struct Request {
    id: u64,
    body: Vec<u8>,
}

/// What a worker makes and the reactor sends.
struct Reply {
    id: u64,
    text: String,
}

impl DemoServer {
    /// Serves for the time asked.
    pub fn run(self) -> Result<u8, Failure> {
        let time = Duration::from_secs(self.seconds.into());
        serve(time).map(|_| 0).map_err(|error| {
            Failure::new(
                status::FAILED,
                format!("the demo server cannot start its threads: {error}"),
            )
        })
    }
}

/// Runs the server and returns how many replies it sent.
fn serve(time: Duration) -> io::Result<u64> {
    let (replies, finished) = sync_channel(OPEN);
    let mut queues = Vec::new();
    let mut workers = Vec::new();
    for n in 0..WORKERS {
        let (queue, requests) = sync_channel(OPEN);
        let replies = replies.clone();
        let worker = thread::Builder::new().name(format!("worker-{n}"));
        workers.push(worker.spawn(move || work(&requests, &replies))?);
        queues.push(queue);
    }
    drop(replies);
    let reactor = thread::Builder::new().name("reactor".into());
    let reactor = reactor.spawn(move || react(time, queues, &finished))?;
    let sent = reactor.join().unwrap_or_default();
    for worker in workers {
        let _ = worker.join();
    }
    Ok(sent)
}

/// The reactor: reads requests, hands them out in turn, sends replies as they come.
fn react(
    time: Duration,
    queues: Vec<SyncSender<Box<Request>>>,
    finished: &Receiver<Box<Reply>>,
) -> u64 {
    let (start, mut sent) = (Instant::now(), 0);
    for id in 0_u64.. {
        if id.is_multiple_of(64) && start.elapsed() >= time {
            break;
        }
        if queues[id as usize % WORKERS]
            .send(read_request(id))
            .is_err()
        {
            break;
        }
        while let Ok(reply) = finished.try_recv() {
            sent += send_reply(reply);
        }
        if id + 1 - sent >= OPEN as u64
            && let Ok(reply) = finished.recv()
        {
            sent += send_reply(reply);
        }
    }
    drop(queues);
    while let Ok(reply) = finished.recv() {
        sent += send_reply(reply);
    }
    sent
}

fn work(requests: &Receiver<Box<Request>>, replies: &SyncSender<Box<Reply>>) {
    while let Ok(request) = requests.recv() {
        if replies.send(handle(request)).is_err() {
            return;
        }
    }
}

#[inline(never)]
fn read_request(id: u64) -> Box<Request> {
    let body = vec![id as u8; 64 + (id as usize * 37) % 448];
    black_box(Box::new(Request { id, body }))
}

/// Makes the reply, and frees the request.
#[inline(never)]
#[expect(clippy::boxed_local, reason = "freeing the box here is what is shown")]
fn handle(request: Box<Request>) -> Box<Reply> {
    let sum: u64 = request.body.iter().copied().map(u64::from).sum();
    // Freed by the worker that made it: at home.
    let scratch = black_box(request.body.repeat(2));
    let text = format!("reply {} of {} bytes, sum {sum}", request.id, scratch.len());
    black_box(Box::new(Reply {
        id: request.id,
        text,
    }))
}

/// Sends a reply (to nobody), and frees it.
#[inline(never)]
#[expect(clippy::boxed_local, reason = "freeing the box here is what is shown")]
fn send_reply(reply: Box<Reply>) -> u64 {
    black_box(reply.id + reply.text.len() as u64);
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_gets_its_reply() {
        let sent = serve(Duration::from_millis(50)).unwrap();
        assert!(sent >= 64 && sent.is_multiple_of(64), "{sent}");
    }
}
