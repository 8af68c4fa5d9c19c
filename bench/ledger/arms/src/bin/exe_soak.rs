//! The soak as an executable.

#[path = "../soak/mod.rs"]
mod soak;

fn main() -> std::process::ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    std::process::ExitCode::from(soak::main(&args) as u8)
}
