//! The page that `--html` draws, seen by a real browser: complete without scripts, in any width and colour scheme, quiet,
//! and alone. The pictures are kept in the tests' directory below `target`, as `report/*.png`.

mod browser;
mod common;

use std::fs;
use std::path::{Path, PathBuf};

use browser::Browser;
use common::{Scratch, Seen, millstream, output};
use serde_json::{Value, json};

const HOSTILE: &str = "\"'><script>document.title='broken'</script><img src=x onerror=alert(1)>&amp;\u{202e}";

fn report(arguments: &[&str]) -> Seen {
    output(&mut millstream([&["bench", "report"], arguments].concat()))
}

/// A cell as `--json` writes it, of ten samples around `median`.
fn cell(method: &str, transport: &str, placement: &str, params: Value, unit: &str, median: f64) -> Value {
    let samples: Vec<f64> = (0..10).map(|index| median * (0.96 + 0.01 * f64::from(index * 7 % 10))).collect();
    let telemetry = json!({"pids": [10, 11], "cpus": [0, 1], "voluntary_switches": 1, "involuntary_switches": 0,
        "migrations": 0, "minor_faults": 9, "major_faults": 0, "steal_ticks": 1});
    let launches = vec![json!({"samples": 1, "telemetry": telemetry}); 10];
    json!({"method": method, "transport": transport, "placement": placement, "params": params, "unit": unit,
        "median": median, "ci95": [median * 0.97, median * 1.02], "n": 10, "samples": samples, "outliers": [3],
        "humps": null, "warmup": [], "launches": launches, "converged": true, "valid": true, "why_invalid": null,
        "baseline": null, "ratio": null, "ratio_ci95": null, "noise_ci95": [0.96, 1.05], "verdict": null})
}

/// The baseline and ours, some times as fast.
fn pair(
    method: &str,
    baseline: &str,
    placement: &str,
    params: &Value,
    unit: &str,
    median: f64,
    ratio: f64,
) -> [Value; 2] {
    let ours = if unit.ends_with("/s") { median * ratio } else { median / ratio };
    let mut ours = cell(method, "millstream", placement, params.clone(), unit, ours);
    let verdict = if ratio > 1.05 {
        "better"
    } else if ratio < 0.9 {
        "worse"
    } else {
        "inconclusive"
    };
    for (field, value) in [
        ("baseline", json!(baseline)),
        ("ratio", json!(ratio)),
        ("ratio_ci95", json!([ratio * 0.97, ratio * 1.03])),
        ("verdict", json!(verdict)),
    ] {
        ours[field] = value;
    }
    [cell(method, baseline, placement, params.clone(), unit, median), ours]
}

fn invalid(mut cell: Value, why: &str) -> Value {
    for field in ["median", "ci95", "ratio", "ratio_ci95", "verdict"] {
        cell[field] = Value::Null;
    }
    (cell["valid"], cell["why_invalid"]) = (false.into(), why.into());
    cell
}

/// A cell or more of every method.
fn every_method() -> Vec<Value> {
    let mut cells = Vec::new();
    for (placement, gain) in [("2cpu", 4.0), ("1cpu", 0.8)] {
        for transfer in [512, 2048, 4096, 16384, 65536, 131_072] {
            let params = json!({"transfer": transfer});
            cells.extend(pair("bw_pipe", "pipe", placement, &params, "MB/s", 900.0 + f64::from(transfer) / 60.0, gain));
            cells.push(cell("bw_unix", "unix", placement, params, "MB/s", 800.0));
        }
        for size in [64, 128, 256, 512, 1024, 2048, 4096] {
            for messages in [100, 1000, 5000, 10_000, 100_000] {
                let gain = gain * f64::from(size * messages).log10() / 6.0;
                cells.extend(pair(
                    "fifo_grid",
                    "fifo",
                    placement,
                    &json!({"size": size, "messages": messages}),
                    "us",
                    f64::from(messages),
                    gain,
                ));
            }
        }
        for waiting in ["running", "asleep"] {
            for method in ["lat_pipe", "lat_unix", "lat_fifo"] {
                cells.extend(pair(method, "pipe", placement, &json!({"waiting": waiting}), "us", 40.0, gain));
            }
        }
        for workload in ["grep", "cat-cat", "cat-wc"] {
            cells.extend(pair(
                "grep",
                "pipe",
                placement,
                &json!({"workload": workload, "size": 50_000_000}),
                "ms",
                31.0,
                gain,
            ));
        }
        let study = json!({"workload": "study", "transfer": 4096, "size": 512});
        cells.extend(pair("pipeflex", "pipe", placement, &study, "MB/s", 100.0, 1.0));
    }
    for workload in ["sequential", "random", "tlb"] {
        for stride in [64, 4096] {
            for power in 12..28 {
                let latency =
                    [1.2, 4.0, 30.0, 90.0][usize::from(power > 15) + usize::from(power > 20) + usize::from(power > 24)];
                let params = json!({"size": 1_u64 << power, "stride": stride, "workload": workload, "pages": 4096});
                cells.push(cell("lat_mem_rd", "memory", "1cpu", params, "ns", latency));
            }
        }
    }
    cells.push(cell("cache_to_cache", "line", "2cpu", json!({}), "ns", 60.0));
    cells.push(invalid(
        cell("memcpy", "memcpy", "1cpu", json!({"size": 4096}), "MB/s", 1.0),
        "the reader was killed by signal 9",
    ));
    cells
}

fn document(cells: Vec<Value>) -> Value {
    json!({"schema": "millstream bench 2", "command": ["millstream", "bench", "suite"], "began": 1_795_262_887,
        "seconds": 83.5, "cells": cells, "machine": {"cpu": "Some CPU", "cpus": 2, "kernel": "6.18", "memory": 8_u64 << 30,
        "caches": [32768, 1_048_576, 33_554_432], "huge_pages": "madvise", "is_virtual": true}})
}

/// The page of a document.
fn drawn(scratch: &Scratch, name: &str, document: &Value) -> PathBuf {
    let results = scratch.file(&format!("{name}.json"), &document.to_string());
    let page = scratch.path(&format!("{name}.html"));
    let seen = report(&[&results, "--html", page.to_str().unwrap()]);
    assert_eq!((seen.code, seen.stdout.as_str(), seen.stderr.as_str()), (Some(0), "", ""));
    page
}

fn pictures() -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report");
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// Opens the page at two widths in two colour schemes; nothing overflows, nothing complains. Keeps pictures.
fn looks_right(browser: &mut Browser, name: &str, page: &Path) {
    for (width, is_phone) in [(1280, false), (360, true)] {
        for scheme in ["light", "dark"] {
            browser.look(width, scheme, is_phone);
            browser.open(page);
            let needed = browser.evaluate("document.documentElement.scrollWidth").as_u64().unwrap();
            assert!(needed <= u64::from(width), "{name} is {needed} wide on {width}");
            assert_eq!(browser.complaints(), [""; 0], "{name}");
            browser.screenshot(&pictures().join(format!("{name}-{width}-{scheme}.png")));
        }
    }
}

#[test]
fn a_page_of_every_method_is_right_at_every_width_and_in_both_schemes() {
    let scratch = Scratch::new();
    let mut browser = Browser::start(&scratch.path("profile"));
    let page = drawn(&scratch, "every", &document(every_method()));
    looks_right(&mut browser, "every", &page);

    let paper = |browser: &mut Browser| browser.evaluate("getComputedStyle(document.body).backgroundColor");
    browser.look(1280, "light", false);
    let light = paper(&mut browser);
    browser.look(1280, "dark", false);
    assert_ne!(light, paper(&mut browser), "dark is not light");
    let printed = browser.print();
    assert!(printed.starts_with(b"%PDF") && printed.len() > 20_000, "{} bytes", printed.len());
    fs::write(pictures().join("every.pdf"), printed).unwrap();
}

#[test]
fn page_is_complete_without_scripts() {
    let scratch = Scratch::new();
    let mut browser = Browser::start(&scratch.path("profile"));
    let page = drawn(&scratch, "quiet", &document(every_method()));
    browser.look(1280, "light", false);
    browser.open(&page);
    let text = "[...document.querySelectorAll('main, header, footer')].map(part => part.textContent.replaceAll('Enlarge', '')).join()";
    let (charts, with_scripts) =
        (browser.evaluate("document.querySelectorAll('figure > svg').length"), browser.evaluate(text));
    assert_eq!(browser.evaluate("document.querySelectorAll('figure button').length"), charts);
    browser.allow_scripts(false);
    browser.open(&page);
    assert_eq!(browser.evaluate("document.querySelectorAll('button').length"), 0);
    assert_eq!(browser.evaluate("document.querySelectorAll('figure > svg').length"), charts);
    assert_eq!(browser.evaluate(text), with_scripts);
    assert!(charts.as_u64().unwrap() > 15, "{charts} charts");
    assert_eq!(browser.complaints(), [""; 0]);
    let text = with_scripts.as_str().unwrap();
    for part in [
        "cells failed a check",
        "the reader was killed by signal 9",
        "millstream bench suite",
        "Some CPU",
        "Other hardware",
        "2026-11-21",
    ] {
        assert!(text.contains(part), "{part} is not on the page");
    }
}

#[test]
fn a_chart_is_enlarged_and_put_back_with_the_keyboard() {
    let scratch = Scratch::new();
    let mut browser = Browser::start(&scratch.path("profile"));
    let page = drawn(&scratch, "zoom", &document(every_method()));
    browser.look(1280, "light", false);
    browser.open(&page);
    browser.evaluate("document.querySelector('figure button').focus()");
    let mut press = |key: &str, code: u32, text: &str| {
        let event = |kind| json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text});
        browser.call("Input.dispatchKeyEvent", event("keyDown"));
        browser.call(
            "Input.dispatchKeyEvent",
            json!({"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": code}),
        );
        browser.evaluate("document.querySelectorAll('dialog[open] svg').length")
    };
    assert_eq!(press("Enter", 13, "\r"), 1);
    assert_eq!(press("Escape", 27, ""), 0);
    assert_eq!(browser.evaluate("document.activeElement.textContent"), "Enlarge");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn page_describes_its_charts_in_words() {
    let scratch = Scratch::new();
    let mut browser = Browser::start(&scratch.path("profile"));
    let page = drawn(&scratch, "heard", &document(every_method()));
    browser.look(1280, "light", false);
    browser.open(&page);
    for (what, faults) in [
        (
            "a chart without title and description",
            "[...document.querySelectorAll('svg:not([aria-hidden])')].filter(svg => !svg.querySelector(':scope > title')?.textContent || !svg.querySelector(':scope > desc')?.textContent).length",
        ),
        (
            "a name that is used twice",
            "document.querySelectorAll('[id]').length - new Set([...document.querySelectorAll('[id]')].map(part => part.id)).size",
        ),
        ("a table without a caption", "[...document.querySelectorAll('table')].filter(table => !table.caption).length"),
        (
            "a heading that skips a level",
            "[...document.querySelectorAll('h1,h2,h3,h4')].map(heading => +heading.tagName[1]).filter((level, index, all) => level > (all[index - 1] ?? 0) + 1).length",
        ),
        (
            "a missing landmark",
            "['header', 'nav', 'main', 'footer'].filter(name => document.querySelectorAll('body > ' + name).length != 1).length",
        ),
        (
            "a link that leads nowhere or away",
            "[...document.links].filter(link => !document.getElementById(link.getAttribute('href').slice(1))).length",
        ),
    ] {
        assert_eq!(browser.evaluate(faults), 0, "{what}");
    }
    for scheme in ["light", "dark"] {
        browser.look(1280, scheme, false);
        let weakest = browser.evaluate(CONTRAST);
        assert!(weakest[0].as_f64().unwrap() >= 4.5, "{scheme}: {weakest}");
    }
}

/// The least contrast of a text with what is behind it (WCAG 2.2, relative luminance), and that text.
const CONTRAST: &str = "(() => {
  const channels = colour => colour.match(/[\\d.]+/g).map(Number);
  const luminance = colour => channels(colour).slice(0, 3).map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, index) => sum + c * [0.2126, 0.7152, 0.0722][index], 0);
  const behind = part => {
    if (part.matches('text.field:not(.hollow)')) return getComputedStyle(part.previousElementSibling).fill;
    for (; part; part = part.parentElement) {
      const colour = getComputedStyle(part).backgroundColor;
      if ((channels(colour)[3] ?? 1) > 0) return colour;
    }
  };
  let weakest = [99, ''];
  for (const part of document.querySelectorAll('body *')) {
    if (part.closest('script, title, desc, .hidden, .skip') || ![...part.childNodes].some(node => node.nodeType == 3 && node.data.trim())) continue;
    const style = getComputedStyle(part);
    const [a, b] = [luminance(part.closest('svg') ? style.fill : style.color), luminance(behind(part))].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < weakest[0]) weakest = [contrast, part.outerHTML.slice(0, 200)];
  }
  return weakest;
})()";

#[test]
fn hostile_results_stay_text() {
    let scratch = Scratch::new();
    let mut browser = Browser::start(&scratch.path("profile"));
    let mut cells: Vec<Value> = (1..5)
        .flat_map(|size| {
            pair(HOSTILE, HOSTILE, HOSTILE, &json!({HOSTILE: HOSTILE, "size": size}), HOSTILE, f64::from(size), 2.0)
        })
        .collect();
    cells.push(invalid(cell(&HOSTILE.repeat(1000), HOSTILE, "1cpu", json!({}), "ms", 1.0), HOSTILE));
    cells.push(cell("bw_pipe", HOSTILE, "2cpu", json!({"transfer": -1.5}), "MB/s", 0.0));
    let mut results = document(cells);
    results["machine"]["cpu"] = HOSTILE.into();
    results["machine"]["caches"] = json!([0, 18_446_744_073_709_551_615_u64]);
    results["command"] = json!([HOSTILE, "</script>"]);
    results["began"] = u64::MAX.into();
    let page = drawn(&scratch, "hostile", &results);
    looks_right(&mut browser, "hostile", &page);
    assert_eq!(browser.evaluate("document.images.length"), 0);
    assert_eq!(browser.evaluate("document.scripts.length"), 2);
    assert_ne!(browser.evaluate("document.title"), "broken");
    assert_eq!(browser.evaluate("JSON.parse(document.getElementById('document').textContent).machine.cpu"), HOSTILE);
}

#[test]
fn few_cells_or_none_make_a_page() {
    let scratch = Scratch::new();
    let mut browser = Browser::start(&scratch.path("profile"));
    let one = cell("tomorrow", "somehow", "free", json!({"depth": 3}), "ns", 1e-9);
    let failed = invalid(one.clone(), "nothing was there");
    for (name, cells, says) in [
        ("none", vec![], "Nothing was measured."),
        ("one", vec![one], "The one cell passed its checks."),
        ("failed", vec![failed], "1 of 1 cell failed"),
    ] {
        let page = drawn(&scratch, name, &document(cells));
        looks_right(&mut browser, name, &page);
        let text = browser.evaluate("document.querySelector('.banner').textContent");
        assert!(text.as_str().unwrap().contains(says), "{name}: {text}");
    }
}

#[test]
fn a_page_is_below_a_megabyte_and_says_what_it_leaves_out() {
    let scratch = Scratch::new();
    let mut long = every_method();
    for cell in &mut long {
        cell["samples"] = json!((0..400).map(|index| 1.0 + f64::from(index) / 3.0).collect::<Vec<_>>());
    }
    for (name, cells) in [("long", long.clone()), ("many", vec![long; 5].concat())] {
        let page = fs::read_to_string(drawn(&scratch, name, &document(cells))).unwrap();
        assert!(page.len() < 1_000_000, "{name}: {} bytes", page.len());
        assert!(
            page.contains("What --json wrote is complete") || page.contains("What --json wrote is exact"),
            "{name}"
        );
    }
}

#[test]
fn a_measurement_draws_its_own_page() {
    let scratch = Scratch::new();
    let (page, results) = (scratch.path("bw.html"), scratch.path("bw.json"));
    let arguments = [
        "bench",
        "bw_pipe",
        "--rounds",
        "5",
        "--transfer",
        "64k",
        "--placement",
        "1cpu",
        "--transport",
        "pipe,millstream",
    ];
    let seen = output(millstream(arguments).arg("--html").arg(&page).arg("--json").arg(&results));
    assert_eq!(seen.code, Some(0), "{seen:?}");
    let again = scratch.path("again.html");
    let seen = report(&[results.to_str().unwrap(), "--html", again.to_str().unwrap()]);
    assert_eq!((seen.code, seen.stderr.as_str()), (Some(0), ""));
    assert_eq!(fs::read_to_string(&page).unwrap(), fs::read_to_string(&again).unwrap());
    let mut browser = Browser::start(&scratch.path("profile"));
    looks_right(&mut browser, "bw_pipe", &page);
    assert_eq!(browser.evaluate("JSON.parse(document.getElementById('document').textContent).cells.length"), 2);
}

#[test]
fn results_that_cannot_be_drawn_are_refused_with_what_to_do() {
    let scratch = Scratch::new();
    let page = scratch.path("page.html");
    let placeless = document(vec![cell("bw_pipe", "pipe", "1cpu", json!({}), "MB/s", 900.0)]).to_string();
    for (text, says) in [
        (placeless.as_str(), "is damaged: cell 1, of bw_pipe, has no number 'transfer'"),
        ("no JSON", "is not JSON"),
        ("{}", "names no schema"),
        (r#"{"schema": "millstream bench 9"}"#, "was written by a newer millstream"),
        (r#"{"schema": "millstream bench 1"}"#, "measure again"),
        (r#"{"schema": "millstream bench 2", "cells": 5}"#, "is damaged"),
    ] {
        let seen = report(&[&scratch.file("results.json", text), "--html", page.to_str().unwrap()]);
        assert_eq!((seen.code, seen.stderr.contains(says)), (Some(2), true), "{text}: {seen:?}");
        assert!(!page.exists(), "a page of nothing");
    }
    let seen = report(&["/nonexistent", "--html", page.to_str().unwrap()]);
    assert_eq!((seen.code, seen.stderr.contains("cannot read '/nonexistent'")), (Some(2), true), "{seen:?}");
    let results = scratch.file("results.json", &document(vec![]).to_string());
    let seen = report(&[&results, "--html", "/nonexistent/page.html"]);
    assert_eq!((seen.code, seen.stderr.contains("cannot write '/nonexistent/page.html'")), (Some(2), true), "{seen:?}");
    let seen = report(&[&results, "--html", &results]);
    assert_eq!((seen.code, seen.stderr.contains("are the same file")), (Some(2), true), "{seen:?}");
}
