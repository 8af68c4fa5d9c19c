//! Whether the loop of an artifact really calls the allocator, by its disassembly.

use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// The loop that is measured.
const LOOP: &str = "ledger_bench_pairs";

/// Sees that the loop calls `__rust_alloc` and `__rust_dealloc`: with nothing of the allocator inlined into it, the
/// loop is the same in all artifacts.
///
/// It calls through registers that were loaded from the global offset table, so what is compared is the loop's own
/// code, addresses left out; returned for that.
///
/// # Errors
/// `objdump` is not there, the loop is not, or it does not make three calls (the third is a marker of the standard
/// library's, an empty function).
pub fn code_of_loop(file: &Path) -> Result<String> {
    let output = Command::new("objdump")
        .args(["--disassemble", "--no-show-raw-insn", "--no-addresses"])
        .arg(file)
        .output()
        .context("objdump")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let head = format!("<{LOOP}>:");
    let code: Vec<String> = text
        .lines()
        .skip_while(|line| !line.contains(&head))
        .skip(1)
        .take_while(|line| !line.trim().is_empty())
        .map(without_addresses)
        .collect();
    ensure!(!code.is_empty(), "{}: no {LOOP} in it", file.display());
    let calls = code.iter().filter(|line| line.starts_with("call")).count();
    // Three in the loop, and two ways to abort.
    ensure!(calls == 5, "{}: {LOOP} makes {calls} calls", file.display());
    Ok(code.join("\n"))
}

fn without_addresses(line: &str) -> String {
    let line = line.split(['#', '<']).next().unwrap_or_default().trim();
    let words = line
        .split_whitespace()
        .map(|word| match word.find("(%rip)") {
            Some(at) => format!("…{}", &word[at..]),
            None => word.to_owned(),
        });
    let mut text: Vec<String> = words.collect();
    if text.first().is_some_and(|word| word.starts_with('j')) {
        text.truncate(1);
    }
    text.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_between_artifacts_is_left_out() {
        let load = "mov    0x4496f(%rip),%r15        # <_DYNAMIC+0x298>";
        assert_eq!(without_addresses(load), "mov …(%rip),%r15");
        assert_eq!(without_addresses("call   *%r12"), "call *%r12");
        assert_eq!(without_addresses("jne    <ledger_bench_pairs+0x50>"), "jne");
        assert_eq!(without_addresses("mov    $0x8,%esi"), "mov $0x8,%esi");
    }
}
