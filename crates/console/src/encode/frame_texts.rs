//! Encoded frames of the newest sample: each is encoded once for all clients that have skipped as many frames.

use tokio_tungstenite::tungstenite::Utf8Bytes;

/// The texts of one sample, by the number of frames that their clients have skipped.
#[derive(Debug, Default)]
pub(crate) struct FrameTexts {
    seq: u64,
    texts: Vec<(u64, Utf8Bytes)>,
}

impl FrameTexts {
    /// Returns the text for clients that have skipped `skipped` frames; calls `encode` for the first of them.
    pub(crate) fn text(&mut self, seq: u64, skipped: u64, encode: impl FnOnce() -> String) -> Utf8Bytes {
        if self.seq != seq {
            self.seq = seq;
            self.texts.clear();
        }
        if let Some((_, text)) = self.texts.iter().find(|(known, _)| *known == skipped) {
            return text.clone();
        }
        let text = Utf8Bytes::from(encode());
        self.texts.push((skipped, text.clone()));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_encoded_once_for_clients_that_have_skipped_as_many() {
        let mut texts = FrameTexts::default();
        let mut encoded = Vec::new();

        for (seq, skipped) in [(1, 0), (1, 0), (1, 3), (1, 0), (1, 3), (2, 3), (2, 0), (2, 3)] {
            let text = texts.text(seq, skipped, || {
                encoded.push((seq, skipped));
                format!("{seq}/{skipped}")
            });
            assert_eq!(text.as_str(), format!("{seq}/{skipped}"));
        }

        assert_eq!(encoded, [(1, 0), (1, 3), (2, 3), (2, 0)]);
    }
}
