//! How a command of MHA's ends.

/// A failed command: its error sentence and exit code.
pub struct Failed {
    pub code: u8,
    pub why: String,
}

impl From<String> for Failed {
    fn from(why: String) -> Self {
        Self { code: 1, why }
    }
}

pub type ToolResult = Result<u8, Failed>;
