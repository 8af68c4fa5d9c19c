//! redis-server under an arm, a fixed amount of work sent by redis-benchmark.

use crate::Options;
use crate::arm::{Arm, clear};
use crate::child::{self, Running};
use crate::program::take_profile;
use crate::results::Sample;
use anyhow::{Context, Result, bail, ensure};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// What is sent, each as often as `--requests` says.
const TESTS: [&str; 3] = ["set", "get", "lpush"];

/// Starts a server, sends it the work, stops it.
///
/// # Errors
/// The server does not start, answer or stop, or the client fails.
pub fn run(arm: Arm, options: &Options, dir: &Path, io_threads: bool) -> Result<Sample> {
    let timeout = Duration::from_secs(options.timeout);
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let port_text = port.to_string();
    let mut args = vec!["--port", &port_text, "--bind", "127.0.0.1"];
    args.extend(["--save", "", "--appendonly", "no", "--daemonize", "no"]);
    if io_threads {
        args.extend(["--io-threads", "2"]);
    }
    let armed = arm.command(options.lib.as_deref(), dir, Path::new("redis-server"), args);
    let server = Running::start(armed.command, dir, timeout)?;
    let mut connection = Connection::open(port)?;
    let pid = connection.server_pid()?;
    let at_start = resident(pid, "VmRSS:")?;

    let client_dir = dir.join("client");
    std::fs::create_dir(&client_dir)?;
    let mut client = Command::new("redis-benchmark");
    client
        .args(["-h", "127.0.0.1", "-p", &port_text, "-t", &TESTS.join(",")])
        .args(["-n", &options.requests.to_string()])
        .args(["-c", "50", "-P", "16", "-r", "100000", "-d", "100", "--csv"]);
    clear(&mut client);
    let sent = child::run(client, &client_dir, timeout).context("redis-benchmark")?;
    let lines = std::fs::read_to_string(client_dir.join("stdout"))?;
    let answered = lines.lines().filter(|l| l.starts_with('"')).skip(1).count();
    ensure!(answered == TESTS.len(), "redis-benchmark printed: {lines}");

    let peak = resident(pid, "VmHWM:")?;
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let library = ["homefree", "heaptrack"]
        .into_iter()
        .find(|name| maps.contains(&format!("lib{name}")))
        .unwrap_or("none");
    connection.send("SHUTDOWN NOSAVE\r\n")?;
    let used = server.finish(dir).context("redis-server")?;
    let mut sample = Sample {
        wall: sent.wall,
        cpu: used.cpu,
        touched: peak.saturating_sub(at_start),
        peak,
        library: library.to_owned(),
        throughput: Some((options.requests * TESTS.len() as u64) as f64 / sent.wall),
        ..Sample::default()
    };
    take_profile(arm, dir, armed.profile.as_deref(), &mut sample)?;
    Ok(sample)
}

/// A line of `/proc/PID/status`, in bytes.
fn resident(pid: u32, name: &str) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|l| l.strip_prefix(name));
    let kib = line.and_then(|l| l.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(kib.with_context(|| format!("no {name} of process {pid}"))? * 1024)
}

struct Connection(TcpStream);

impl Connection {
    /// Connects once the server answers; it has 30 seconds for that.
    fn open(port: u16) -> Result<Self> {
        let start = Instant::now();
        loop {
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
                stream.set_read_timeout(Some(Duration::from_secs(5)))?;
                let mut connection = Self(stream);
                if connection
                    .ask("PING\r\n")
                    .is_ok_and(|a| a.starts_with("+PONG"))
                {
                    return Ok(connection);
                }
            }
            if start.elapsed() > Duration::from_secs(30) {
                bail!("redis-server does not answer on port {port}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn send(&mut self, command: &str) -> Result<()> {
        Ok(self.0.write_all(command.as_bytes())?)
    }

    /// Sends a command and reads what comes back at first; enough for short answers.
    fn ask(&mut self, command: &str) -> Result<String> {
        self.send(command)?;
        let mut buffer = [0; 8192];
        let got = self.0.read(&mut buffer)?;
        Ok(String::from_utf8_lossy(&buffer[..got]).into_owned())
    }

    fn server_pid(&mut self) -> Result<u32> {
        let info = self.ask("INFO server\r\n")?;
        let pid = info.lines().find_map(|l| l.strip_prefix("process_id:"));
        Ok(pid
            .context("INFO server has no process_id")?
            .trim()
            .parse()?)
    }
}
