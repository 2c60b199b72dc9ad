//! Builds the arguments of ffmpeg: inputs, filter graph and outputs.

use crate::tarvideo::flag_values::StillFormat;

/// A chain of filters and the label of its output.
pub struct FilterChain {
    filters: Vec<String>,
    label: String,
}

impl FilterChain {
    pub fn new(filters: Vec<String>, label: String) -> Self {
        FilterChain { filters, label }
    }
}

/// The arguments so far, in the three groups that ffmpeg expects in this order.
#[derive(Default)]
pub struct CommandLine {
    pub inputs: Vec<String>,
    pub graph: Vec<String>,
    pub outputs: Vec<String>,
}

impl CommandLine {
    pub fn input(&mut self, words: &[&str]) {
        self.inputs.extend(words.iter().map(|&word| word.to_owned()));
    }

    pub fn output(&mut self, words: &[&str]) {
        self.outputs.extend(words.iter().map(|&word| word.to_owned()));
    }

    /// Ends an output file, without timestamps or version strings, so that its bytes are reproducible.
    pub fn finish(&mut self, file: &str, is_mp4: bool) {
        let flags = ["-fflags", "+bitexact", "-flags:v", "+bitexact", "-flags:a", "+bitexact", "-map_chapters", "-1"];
        self.output(&flags);
        if is_mp4 {
            self.output(&["-movflags", "+faststart"]);
        }
        self.output(&[file]);
    }

    /// Adds an output of images: `file` has a placeholder for the frame number, unless there is only one image.
    pub fn image(&mut self, label: &str, file: &str, format: StillFormat, only_one: bool) {
        self.output(&["-map", &format!("[{label}]"), "-f", "image2", "-fps_mode", "passthrough", "-threads:v", "1"]);
        match format {
            StillFormat::Jpg => self.output(&["-c:v", "mjpeg", "-q:v", "2"]),
            StillFormat::Png => self.output(&["-c:v", "png"]),
        }
        if only_one {
            self.output(&["-frames:v", "1", "-update", "1"]);
        }
        self.finish(file, false);
    }

    /// Feeds the stream labelled `source` to each of the filter chains.
    pub fn split(&mut self, source: &str, branches: Vec<FilterChain>) {
        let count = branches.len();
        let pad =
            |i: usize| if count == 1 { format!("[{source}]") } else { format!("[{}-{i}]", source.replace(':', "-")) };
        if count > 1 {
            let pads: String = (0..count).map(pad).collect();
            self.graph.push(format!("[{source}]split={count}{pads}"));
        }
        for (i, FilterChain { filters, label }) in branches.into_iter().enumerate() {
            let filters = if filters.is_empty() { "null".to_owned() } else { filters.join(",") };
            self.graph.push(format!("{}{filters}[{label}]", pad(i)));
        }
    }
}
