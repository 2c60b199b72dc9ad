//! What to do about a failure: advice by reason code.

/// Advice by tool and reason code; `*` is any tool. The first match counts.
const HINTS: &[(&str, &str, &str)] = &[
    ("fetch", "blocked_address", "use --allow-private to connect to internal addresses"),
    ("fetch", "bad_url", "a URL begins with http:// or https://"),
    ("fetch", "too_large", "use --max-bytes to accept larger files"),
    ("fetch", "opt_out", "--opt-out selects the opt-outs that are honoured"),
    ("fetch", "tls", "use --insecure to accept any certificate"),
    ("fetch", "file", "use --allow-file to read file: URLs"),
    ("tarshow", "exists", "use --force to replace existing files"),
    ("tarshow", "in_the_way", "remove it, or extract to another folder"),
    ("tarjoin", "conflict", "use --on-conflict to replace or keep such values"),
    ("tarcreate", "too_large", "use --max-size to accept larger files"),
    ("tarcreate", "pipe", "use --allow-pipes to run commands of the input"),
    ("tarvideo", "no_media", "use --no-media pass to pass such samples on"),
    ("*", "disk_full", "use --tmpdir to name a larger disk"),
    ("*", "too_large", "use --max-sample to accept larger samples"),
    ("*", "memory", "use --memory to allow more"),
    ("*", "timeout", "use --timeout to allow more time"),
];

/// The advice for a failure code of `tool`, as a clause to append to a message.
pub fn for_code(tool: &str, code: &str) -> Option<&'static str> {
    let is_match = |hint: &&(&str, &str, &str)| (hint.0 == tool || hint.0 == "*") && hint.1 == code;
    HINTS.iter().find(is_match).map(|hint| hint.2)
}
