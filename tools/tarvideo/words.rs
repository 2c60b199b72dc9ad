//! A command line of ffmpeg under construction.

use super::choices::Image;

/// A chain of filters, and what its end is called.
pub struct Branch {
    filters: Vec<String>,
    label: String,
}

impl Branch {
    pub fn new(filters: Vec<String>, label: String) -> Self {
        Branch { filters, label }
    }
}

/// Inputs, graph and outputs.
#[derive(Default)]
pub struct Words {
    pub inputs: Vec<String>,
    pub graph: Vec<String>,
    pub outputs: Vec<String>,
}

impl Words {
    pub fn input(&mut self, words: &[&str]) {
        self.inputs.extend(words.iter().map(|&word| word.to_owned()));
    }

    pub fn output(&mut self, words: &[&str]) {
        self.outputs.extend(words.iter().map(|&word| word.to_owned()));
    }

    /// Ends an output: nothing in it tells when or by which build it was made.
    pub fn finish(&mut self, file: &str, is_mp4: bool) {
        let flags = ["-fflags", "+bitexact", "-flags:v", "+bitexact", "-flags:a", "+bitexact", "-map_chapters", "-1"];
        self.output(&flags);
        if is_mp4 {
            self.output(&["-movflags", "+faststart"]);
        }
        self.output(&[file]);
    }

    /// An output of images: `file` has a place for their number, unless there is only one.
    pub fn image(&mut self, label: &str, file: &str, format: Image, only_one: bool) {
        self.output(&["-map", &format!("[{label}]"), "-f", "image2", "-fps_mode", "passthrough", "-threads:v", "1"]);
        match format {
            Image::Jpg => self.output(&["-c:v", "mjpeg", "-q:v", "2"]),
            Image::Png => self.output(&["-c:v", "png"]),
        }
        if only_one {
            self.output(&["-frames:v", "1", "-update", "1"]);
        }
        self.finish(file, false);
    }

    /// Feeds what is called `source` to each of the branches.
    pub fn split(&mut self, source: &str, branches: Vec<Branch>) {
        let count = branches.len();
        let pad =
            |i: usize| if count == 1 { format!("[{source}]") } else { format!("[{}-{i}]", source.replace(':', "-")) };
        if count > 1 {
            let pads: String = (0..count).map(pad).collect();
            self.graph.push(format!("[{source}]split={count}{pads}"));
        }
        for (i, Branch { filters, label }) in branches.into_iter().enumerate() {
            let filters = if filters.is_empty() { "null".to_owned() } else { filters.join(",") };
            self.graph.push(format!("{}{filters}[{label}]", pad(i)));
        }
    }
}
