//! An abbreviated id.

/// Bytes of an id.
const ID_LEN: usize = 20;

/// First hexadecimal digits of a node or an oid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Digits followed by zeros: the least id with this prefix.
    least: [u8; ID_LEN],
    digits: usize,
}

impl Prefix {
    /// Prefix of `digits` digits, 1 to 40, of `id`. Later digits are ignored.
    #[must_use]
    pub fn new(id: [u8; ID_LEN], digits: usize) -> Option<Self> {
        if digits == 0 || digits > 2 * ID_LEN {
            return None;
        }
        let mut least = id;
        for (at, byte) in least.iter_mut().enumerate() {
            *byte &= match digits.saturating_sub(2 * at) {
                0 => 0,
                1 => 0xf0,
                _ => 0xff,
            };
        }
        Some(Self { least, digits })
    }

    /// Number of digits.
    #[must_use]
    pub const fn digits(&self) -> usize {
        self.digits
    }

    /// Least id with this prefix.
    #[must_use]
    pub const fn least(&self) -> &[u8; ID_LEN] {
        &self.least
    }

    /// Whether `id` has this prefix.
    #[must_use]
    pub fn begins(&self, id: &[u8; ID_LEN]) -> bool {
        Self::new(*id, self.digits).as_ref() == Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_beyond_the_prefix_do_not_count() {
        let mut id = [0xab; ID_LEN];
        for digits in 1..=40 {
            let prefix = Prefix::new(id, digits).expect("1 to 40");
            assert!(prefix.begins(&id) && prefix.begins(prefix.least()), "{digits}");
        }
        let prefix = Prefix::new(id, 3).expect("1 to 40");
        assert_eq!(prefix.least()[..3], [0xab, 0xa0, 0]);
        id[1] = 0xa9;
        assert!(prefix.begins(&id));
        id[1] = 0xba;
        assert!(!prefix.begins(&id));
    }

    #[test]
    fn a_prefix_has_1_to_40_digits() {
        assert_eq!(Prefix::new([0; ID_LEN], 0), None);
        assert_eq!(Prefix::new([0; ID_LEN], 41), None);
    }
}
