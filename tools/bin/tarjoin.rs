//! `tarjoin` as an executable of its own.

fn main() -> std::process::ExitCode {
    tarpipe_tools::tarjoin::main(std::env::args_os().collect())
}
