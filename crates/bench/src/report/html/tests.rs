use super::*;
use crate::cell::Cell;
use crate::engine::Launch;
use std::collections::BTreeMap;

fn cell(method: &'static str, transport: &'static str, params: &[(&'static str, Value)], sample: f64) -> Cell {
    let mut cell = Cell::new(method, transport, "2cpu", params.iter().cloned().collect::<BTreeMap<_, _>>(), "us");
    (0..5).for_each(|_| cell.add(Launch::of(sample)));
    cell.conclude();
    cell
}

fn page(cells: Vec<Cell>) -> String {
    render(&Document::for_tests(cells))
}

#[test]
fn a_page_without_cells_says_so() {
    let page = page(Vec::new());
    assert!(page.contains("Nothing was measured.") && !page.contains("<svg"), "{page}");
    assert!(page.contains("millstream bench bw_pipe</code>"));
}

#[test]
fn a_ratio_is_in_the_table_with_its_bar() {
    let baseline = cell("lat_pipe", "pipe", &[], 8.0);
    let mut ours = cell("lat_pipe", "millstream", &[], 2.0);
    ours.compare_with(&baseline);
    let page = page(vec![baseline, ours]);
    for part in
        ["lat_pipe: millstream against pipe", "4.00\u{d7}", "v-better", "\u{25b2}", "1 comparison of millstream"]
    {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn a_cell_that_failed_says_why_and_shows_no_number() {
    let mut failed = cell("bw_pipe", "millstream", &[("transfer", 4096.into())], 77.7);
    (failed.why_invalid, failed.median, failed.ci95) = (Some("lost a byte".into()), None, None);
    failed.conclude();
    let page = page(vec![failed]);
    assert!(page.contains("1 of 1 cell failed a check") && page.contains("transfer 4k: lost a byte"), "{page}");
    assert!(!page.contains("77.7\u{a0}"));
}

#[test]
fn numbers_make_lines_and_words_make_rows() {
    let lines = [1024, 2048, 4096].map(|size| cell("new_method", "pipe", &[("size", size.into())], 3.0));
    assert!(page(lines.to_vec()).contains("size in bytes, log scale"));
    let rows = ["a", "b", "c"].map(|word| cell("new_method", "pipe", &[("workload", word.into())], 3.0));
    assert!(page(rows.to_vec()).contains("Medians with their 95 % intervals. Lower is better."));
}

#[test]
fn figures_that_are_no_numbers_draw_nothing_wrong() {
    for odd in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e-300, f64::MAX] {
        let mut cells: Vec<Cell> =
            (1..5).map(|size| cell("lat_fifo", "millstream", &[("size", size.into())], odd)).collect();
        for cell in &mut cells {
            (cell.baseline, cell.ratio) = (Some("pipe".into()), Some(odd));
            (cell.ratio_ci95, cell.noise_ci95, cell.ci95) = (Some([odd, 1.0]), Some([1.0, odd]), Some([odd, odd]));
            cell.outliers = vec![usize::MAX];
        }
        let page = page(cells);
        let drawn = page.split("<svg").skip(1).filter_map(|rest| rest.split("</svg>").next());
        assert!(drawn.clone().count() > 0);
        for chart in drawn {
            let positions = chart
                .split('"')
                .skip(1)
                .step_by(2)
                .filter(|value| value.starts_with(['M', '-']) || value.parse::<f64>().is_ok());
            positions.for_each(|value| assert!(!value.contains("NaN") && !value.contains("inf"), "{odd}: {value}"));
        }
    }
}

#[test]
fn nothing_on_the_page_is_fetched() {
    let page = page(vec![cell("bw_pipe", "pipe", &[], 3.0)]);
    for address in ["http:", "https:", "src=", "url(", "@import"] {
        assert!(!page.contains(address), "{address}");
    }
    assert!(page.contains("default-src &#39;none&#39;"));
}
