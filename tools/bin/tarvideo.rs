//! `tarvideo` as an executable of its own.

fn main() -> std::process::ExitCode {
    tarpipe_tools::tarvideo::main(std::env::args_os().collect())
}
