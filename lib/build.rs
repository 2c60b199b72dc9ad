//! Compiles the part that has to run before Rust's start-up: see stdio.c.

#![allow(clippy::print_stdout, reason = "this is how a build script talks to cargo")]

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=stdio.c");
    cc::Build::new().file("stdio.c").cargo_metadata(false).try_compile("tarpipe_stdio")?;
    println!("cargo::rustc-link-search=native={}", std::env::var("OUT_DIR")?);
    // Nothing calls it, and so a linker that picks what is needed would leave it out.
    println!("cargo::rustc-link-lib=static:+whole-archive=tarpipe_stdio");
    Ok(())
}
