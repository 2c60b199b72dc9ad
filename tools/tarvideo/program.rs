//! ffmpeg and ffprobe: whether they are there, and new enough.

use std::process::Command;

use anyhow::{Context, Result, bail};

/// The oldest that has all the flags we use.
const OLDEST: (u32, u32) = (5, 1);

/// An error that says what to install, unless both programs are there.
pub fn check() -> Result<()> {
    ["ffmpeg", "ffprobe"].into_iter().try_for_each(check_one)
}

fn check_one(name: &str) -> Result<()> {
    let output = match command(name).arg("-version").output() {
        Ok(output) => output,
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => {
            bail!("{name} is not on the PATH: install ffmpeg (apt install ffmpeg)")
        }
        Err(err) => return Err(err).with_context(|| format!("cannot start {name}")),
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    match version(&said) {
        _ if !output.status.success() => bail!("{name} -version fails ({})", output.status),
        Some(found) if found < OLDEST => {
            bail!("{name} is version {}.{}: {}.{} or newer is needed", found.0, found.1, OLDEST.0, OLDEST.1)
        }
        _ => Ok(()), // builds from a repository have a date instead of a number
    }
}

/// The start of every command line.
pub fn command(name: &str) -> Command {
    let mut command = Command::new(name);
    command.env_remove("FFREPORT").env("AV_LOG_FORCE_NOCOLOR", "1");
    command
}

/// `5.1` in `ffmpeg version 5.1.9-0+deb12u1 Copyright …` or `n7.0.2-static`.
fn version(said: &str) -> Option<(u32, u32)> {
    let word = said.split_whitespace().nth(2)?.trim_start_matches('n');
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
