//! Where the bench runs.

use std::process::Command;

/// Processor, kernel and C library, a line each.
pub fn lines() -> Vec<String> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let processor = read("/proc/cpuinfo")
        .lines()
        .find_map(|l| {
            Some(
                l.strip_prefix("model name")?
                    .split_once(':')?
                    .1
                    .trim()
                    .to_owned(),
            )
        })
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let libc = Command::new("ldd").arg("--version").output().ok();
    let libc = libc.map_or_else(String::new, |o| {
        String::from_utf8_lossy(&o.stdout).into_owned()
    });
    vec![
        format!("processor: {processor}, {cores} cores"),
        format!(
            "kernel: Linux {}",
            read("/proc/sys/kernel/osrelease").trim()
        ),
        format!("C library: {}", libc.lines().next().unwrap_or("not known")),
    ]
}
