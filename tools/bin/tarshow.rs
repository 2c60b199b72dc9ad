//! `tarshow` as an executable of its own.

fn main() -> std::process::ExitCode {
    tarpipe_tools::tarshow::main(std::env::args_os().collect())
}
