//! Thread roles.

/// Folds a thread's name to its role: every run of digits becomes one `*`. Writes to `out`, which cuts
/// what does not fit (the kernel's names have at most 15 bytes), and returns the part written.
pub fn fold_role<'a>(name: &[u8], out: &'a mut [u8]) -> &'a [u8] {
    let mut len = 0;
    let mut in_digits = false;
    for &byte in name {
        let digit = byte.is_ascii_digit();
        if digit && in_digits {
            continue;
        }
        in_digits = digit;
        let Some(place) = out.get_mut(len) else { break };
        *place = if digit { b'*' } else { byte };
        len += 1;
    }
    &out[..len]
}

#[cfg(test)]
mod tests {
    use super::fold_role;

    #[test]
    fn numbers_fold() {
        let fold = |name: &str| {
            let mut out = [0; 16];
            std::string::String::from_utf8(fold_role(name.as_bytes(), &mut out).to_vec()).unwrap()
        };
        assert_eq!(fold("rpc-worker-17"), "rpc-worker-*");
        assert_eq!(fold("rpc-worker-4"), "rpc-worker-*");
        assert_eq!(fold("io_thd_1"), "io_thd_*");
        assert_eq!(fold("G1 Conc#0"), "G* Conc#*");
        assert_eq!(fold("reactor"), "reactor");
        assert_eq!(fold(""), "");
        assert_eq!(fold("12"), "*");
        assert_eq!(fold("0123456789abcdefghijklmnop"), "*abcdefghijklmno");
    }
}
