//! Checks that ffmpeg and ffprobe are installed and new enough, and starts their command lines.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use tarpipe::run::captured::{self, Capture};

/// The oldest version that has all the flags we use.
const OLDEST: (u32, u32) = (5, 1);

/// Checks both programs; the error says what to install.
pub fn check() -> Result<()> {
    ["ffmpeg", "ffprobe"].into_iter().try_for_each(check_one)
}

fn check_one(name: &str) -> Result<()> {
    let mut command = command(name);
    command.arg("-version").stdin(Stdio::null());
    let output = match captured::output(command, Capture::default()) {
        Ok(output) => output,
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => {
            bail!("{name} is not on the PATH; install ffmpeg (apt install ffmpeg)")
        }
        Err(err) => return Err(err).with_context(|| format!("cannot start {name}")),
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match version(&text) {
        _ if !output.is_success() => bail!("{name} -version failed ({})", output.end),
        Some(found) if found < OLDEST => {
            bail!("{name} {}.{} is too old; install {}.{} or newer", found.0, found.1, OLDEST.0, OLDEST.1)
        }
        _ => Ok(()), // development builds have a date instead of a version
    }
}

/// A command with a neutral environment.
pub fn command(name: &str) -> Command {
    let mut command = Command::new(name);
    command.env_remove("FFREPORT").env("AV_LOG_FORCE_NOCOLOR", "1");
    command
}

/// Reads `5.1` from `ffmpeg version 5.1.9-0+deb12u1 Copyright …` or `7.0` from `n7.0.2-static`.
fn version(text: &str) -> Option<(u32, u32)> {
    let word = text.split_whitespace().nth(2)?.trim_start_matches('n');
    let mut numbers = word.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    let major = numbers.next()?.ok()?;
    Some((major, numbers.next().and_then(Result::ok).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(version("ffmpeg version 5.1.9-0+deb12u1 Copyright"), Some((5, 1)));
        assert_eq!(version("ffprobe version n7.0.2-static x"), Some((7, 0)));
        assert_eq!(version("ffmpeg version 4.4 x"), Some((4, 4)));
        assert_eq!(version("ffmpeg version N-109542-g1bf1c9ac9 x"), None);
    }
}
