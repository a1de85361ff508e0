//! Dates for people.

/// `2026-11-21 12:08 UTC` (days to a date after Howard Hinnant, chrono-Compatible Low-Level Date Algorithms).
pub fn utc(seconds: u64) -> String {
    // Beyond the year 9999 the number of seconds says more than a date.
    if seconds >= 253_402_300_800 {
        return format!("{seconds} s after 1970");
    }
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", seconds / 3600 % 24, seconds / 60 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, is) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_700_000_000, "2023-11-14 22:13 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
            (u64::MAX, "18446744073709551615 s after 1970"),
        ] {
            assert_eq!(utc(seconds), is);
        }
    }
}
