//! What to do about a failure: advice by reason code, and the nearest known word
//! to a misspelt one.

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
    ("tarcreate", "too_large", "use --max-size to accept larger files"),
    ("tarcreate", "pipe", "use --allow-pipes to run commands of the input"),
    ("tarvideo", "no_media", "use --no-media pass to pass such samples on"),
    ("*", "disk_full", "use --tmpdir to name a larger disk"),
    ("*", "select", "has(…) and 'FIELD' in fields tell whether a sample has a field"),
    ("*", "too_large", "use --max-sample to accept larger samples"),
    ("*", "memory", "use --memory to allow more"),
    ("*", "timeout", "use --timeout to allow more time"),
];

/// The advice for a failure code of `tool`, as a clause to append to a message.
pub fn for_code(tool: &str, code: &str) -> Option<&'static str> {
    let is_match = |hint: &&(&str, &str, &str)| (hint.0 == tool || hint.0 == "*") && hint.1 == code;
    HINTS.iter().find(is_match).map(|hint| hint.2)
}

/// The word of `known` that `word` is most likely meant to be: the same in
/// another case, or else the most similar one; None if none is similar.
///
/// ```
/// use tarpipe::messages::hints::nearest;
///
/// assert_eq!(nearest("widht", ["height", "width"]), Some("width"));
/// assert_eq!(nearest("url", ["TEXT", "URL"]), Some("URL"));
/// assert_eq!(nearest("cls", ["jpg", "json"]), None);
/// ```
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = |other: &str| match other.eq_ignore_ascii_case(word) {
        true => 2.0,
        false => strsim::jaro_winkler(&word.to_lowercase(), &other.to_lowercase()),
    };
    let rated = known.into_iter().map(|other| (likeness(other), other)).filter(|(likeness, _)| *likeness > 0.8);
    rated.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, other)| other)
}

/// `; did you mean 'WORD'?` with the nearest known word, or an empty text.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map(|nearest| format!("; did you mean '{nearest}'?")).unwrap_or_default()
}
