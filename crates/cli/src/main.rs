//! The program `homefree`; everything is in the library beside it.

fn main() -> std::process::ExitCode {
    homefree_cli::main()
}
