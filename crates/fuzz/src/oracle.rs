//! Reference libraries, each in a process of its own: `oracles/*.py`, which read whole files.
//!
//! A request is the length of the file (32 bits, little-endian), its bytes, and in the same form a JSON list of the arrays
//! that `virtualize` shows. An answer, and the greeting at the start, is the length of a JSON head (32 bits), the head, and the values of all arrays in the order of the head. The head is `{"error": …}` or
//! `{"arrays": […]}`; see [`Answer`].

use std::{
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, sync_channel},
    time::Duration,
};

use serde::Deserialize;

/// A program that reads files with a reference library. It is started once, and again after it died.
pub struct Oracle {
    program: &'static str,
    timeout: Duration,
    running: Option<Running>,
}

struct Running {
    child: Child,
    stdin: ChildStdin,
    answers: Receiver<io::Result<Answer>>,
}

/// What the library reads from a file.
#[derive(Deserialize, Debug)]
pub struct Answer {
    /// Why the library does not open the file.
    pub error: Option<String>,
    /// Whether the library crashed, or took too long.
    #[serde(default)]
    died: bool,
    #[serde(default)]
    pub arrays: Vec<Theirs>,
    /// Whether there are more arrays than these.
    #[serde(default)]
    pub has_more: bool,
}

/// An array as the library reads it.
#[derive(Deserialize, Debug)]
pub struct Theirs {
    /// Path without a leading `/`.
    pub path: String,
    /// Why the library does not read it.
    pub error: Option<String>,
    /// Data type, with the names of Zarr v3 ("int16"); structures as `virtualize::digest` names them.
    #[serde(default, rename = "type")]
    pub data_type: String,
    #[serde(default)]
    pub shape: Vec<u64>,
    /// Why values are not compared, such as their number.
    pub uncompared: Option<String>,
    /// Whether the library converted the values from floats that are not IEEE 754.
    #[serde(default, rename = "converted")]
    pub is_converted: bool,
    #[serde(default)]
    bytes: usize,
    /// Elements in row-major order, little-endian; each text is preceded by its length, as in `virtualize::read_array`.
    #[serde(skip)]
    pub values: Vec<u8>,
}

impl Oracle {
    /// Creates the oracle of a program in `oracles/`.
    pub fn new(program: &'static str) -> Self {
        Self { program, timeout: Duration::from_secs(30), running: None }
    }

    /// Returns what the library reads from a file, at least the arrays at `paths`; `None` if it crashes or hangs.
    pub fn read(&mut self, file: &[u8], paths: &[String]) -> Option<Answer> {
        let paths = serde_json::to_vec(paths).expect("text");
        let answer = self.ask(&[file, &paths]);
        if answer.is_none() {
            self.stop();
        }
        answer.filter(|answer| !answer.died)
    }

    fn ask(&mut self, parts: &[&[u8]]) -> Option<Answer> {
        let running = self.running.get_or_insert_with(|| Running::start(self.program));
        for part in parts {
            let length = u32::try_from(part.len()).expect("a small file");
            running.stdin.write_all(&length.to_le_bytes()).ok()?;
            running.stdin.write_all(part).ok()?;
        }
        running.stdin.flush().ok()?;
        running.answers.recv_timeout(self.timeout).ok()?.ok()
    }

    fn stop(&mut self) {
        if let Some(mut running) = self.running.take() {
            drop(running.child.kill());
            drop(running.child.wait());
        }
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Running {
    fn start(program: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let python = std::env::var_os("ORACLE_PYTHON")
            .map_or_else(|| folder.join("../../.env/bin/python"), PathBuf::from);
        let mut command = Command::new(python);
        command.arg("-B").arg(folder.join("oracles").join(program));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(if std::env::var_os("ORACLE_STDERR").is_some() {
                Stdio::inherit()
            } else {
                Stdio::null()
            })
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stdin = child.stdin.take().expect("a pipe");
        let mut stdout = child.stdout.take().expect("a pipe");
        let (send, answers) = sync_channel(1);
        std::thread::spawn(move || {
            loop {
                let answer = receive(&mut stdout);
                let is_over = answer.is_err();
                if send.send(answer).is_err() || is_over {
                    break;
                }
            }
        });
        // Without this, an oracle that does not start would agree with everything.
        let hello = answers.recv_timeout(Duration::from_secs(60));
        assert!(matches!(hello, Ok(Ok(_))), "{command:?} does not start: {hello:?}");
        Self { child, stdin, answers }
    }
}

fn receive(stdout: &mut impl Read) -> io::Result<Answer> {
    let mut length = [0; 4];
    stdout.read_exact(&mut length)?;
    let mut head = vec![0; u32::from_le_bytes(length) as usize];
    stdout.read_exact(&mut head)?;
    let mut answer: Answer = serde_json::from_slice(&head)?;
    for array in &mut answer.arrays {
        array.values.resize(array.bytes, 0);
        stdout.read_exact(&mut array.values)?;
    }
    Ok(answer)
}
