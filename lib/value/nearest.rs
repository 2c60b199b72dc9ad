//! The nearest known word to a misspelt one, for messages.

/// The word of `known` that `word` is most likely meant to be: the same in
/// another case, or else the most similar one; None if none is similar.
///
/// ```
/// use tarpipe::value::nearest::nearest;
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
