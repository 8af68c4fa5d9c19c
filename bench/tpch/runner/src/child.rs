//! A child: loads one library, and runs what it is asked for.

use crate::library::{Engine, Loaded};
use crate::protocol::{Ask, Calls, HELD, Ran, Ready, Say};
use crate::tls;
use anyhow::{Context, Result};
use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Instant;

/// Serves standard input until it ends.
///
/// # Errors
/// The library cannot be loaded, or a query fails.
pub fn serve(library: &Path, data: &Path, threads: usize) -> Result<()> {
    let loaded = Loaded::load(library).with_context(|| library.display().to_string())?;
    let moved = loaded.moved(HELD);
    let mut engine = Some(loaded.open(data, threads)?);
    say(&Say::Ready(Ready {
        arm: loaded.arm(),
        scale: engine.as_ref().map_or(0.0, Engine::scale),
        moved,
        static_tls: tls::is_static(library)?,
        descriptors: tls::descriptors(library)?,
    }))?;
    for line in std::io::stdin().lock().lines() {
        match (serde_json::from_str(&line?)?, &engine) {
            (Ask::Run(query), Some(engine)) => say(&Say::Ran(run(&loaded, engine, query)?))?,
            (Ask::Write(query, path), Some(engine)) => {
                engine.write(query, &path)?;
                say(&Say::Written)?;
            }
            (Ask::Close, Some(_)) => {
                engine = None;
                let left = loaded.account().map(|account| account.balance);
                say(&Say::Closed { left })?;
            }
            (_, None) => break,
        }
    }
    Ok(())
}

fn run(loaded: &Loaded, engine: &Engine<'_>, query: u32) -> Result<Ran> {
    let before = loaded.account();
    let cpu = cpu();
    let start = Instant::now();
    let answer = engine.run(query)?;
    let wall = start.elapsed().as_secs_f64();
    let cpu = self::cpu() - cpu;
    let calls = before
        .zip(loaded.account())
        .filter(|(before, _)| before.counted)
        .map(|(before, after)| Calls {
            allocs: after.allocs - before.allocs,
            frees: after.frees - before.frees,
            reallocs: after.reallocs - before.reallocs,
            bytes: after.bytes - before.bytes,
            large: after.large - before.large,
        });
    Ok(Ran {
        rows: answer.rows,
        checksum: answer.checksum,
        wall,
        cpu,
        calls,
    })
}

fn say(what: &Say) -> Result<()> {
    let mut line = serde_json::to_string(what)?;
    line.push('\n');
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes())?;
    Ok(out.flush()?)
}

/// User and system seconds of this process.
fn cpu() -> f64 {
    // SAFETY: all-zero is a valid `rusage`, which is plain numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live local.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
