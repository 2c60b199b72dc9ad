//! Compiles stdio.c, which has to run before the start-up code of Rust.

#![allow(clippy::print_stdout, reason = "this is how a build script talks to cargo")]

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=stdio.c");
    cc::Build::new().file("stdio.c").cargo_metadata(false).try_compile("tarpipe_stdio")?;
    println!("cargo::rustc-link-search=native={}", std::env::var("OUT_DIR")?);
    // Nothing refers to it, so the linker would leave it out.
    println!("cargo::rustc-link-lib=static:+whole-archive=tarpipe_stdio");
    Ok(())
}
