//! Reads one metric of a target in Prometheus text format over HTTP.

use std::io::Read;
use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};

/// Timeout for the whole response. Unit: seconds.
const TIMEOUT_S: u64 = 3;
/// Maximum length of a response. Unit: octets.
const ANSWER_OCTETS_MAX: u64 = 16 << 20;

/// Returns the sum of all series of a metric, rounded down.
///
/// # Errors
/// There is no valid response, or the response lacks the metric.
pub(crate) fn read(address: SocketAddr, name: &str) -> Result<u64> {
    let answer = fetch(address).with_context(|| format!("read metrics of {address}"))?;
    parse(&answer, name).with_context(|| format!("the metrics of {address} have no \"{name}\""))
}

fn fetch(address: SocketAddr) -> Result<String> {
    let url = format!("http://{address}/metrics");
    let response = minreq::get(url).with_timeout(TIMEOUT_S).send_lazy()?;
    ensure!(response.status_code == 200, "HTTP status {}", response.status_code);
    let mut body = String::new();
    response.take(ANSWER_OCTETS_MAX).read_to_string(&mut body)?;
    Ok(body)
}

fn parse(text: &str, name: &str) -> Option<u64> {
    let mut sum: Option<u64> = None;
    for line in text.lines() {
        let Some(rest) = line.strip_prefix(name) else { continue };
        let value = match rest.split_once('}') {
            Some((labels, value)) if labels.starts_with('{') => value,
            _ if rest.starts_with(' ') => rest,
            _ => continue,
        };
        let Some(value) = value.split_whitespace().next() else { continue };
        // Large values may be written as 1.5e+08.
        let Some(value) = value.parse::<f64>().ok().filter(|value| value.is_finite()) else {
            continue;
        };
        let whole = format!("{:.0}", value.max(0.0)).parse::<u64>().ok()?;
        sum = Some(sum.unwrap_or(0).saturating_add(whole));
    }
    sum
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn metric_is_read_over_http_and_its_series_are_added() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 512];
            let len = stream.read(&mut request).unwrap();
            assert!(request[..len].starts_with(b"GET /metrics"));
            let text =
                "HTTP/1.0 200 OK\r\n\r\n# TYPE m gauge\nm{a=\"1\"} 1.5e+03\nm{a=\"2\"} 2\nmm 9\n";
            stream.write_all(text.as_bytes()).unwrap();
        });
        assert_eq!(read(address, "m").unwrap(), 1502);
        server.join().unwrap();
        let error = read(address, "m").unwrap_err().to_string();
        assert!(error.starts_with("read metrics of 127.0.0.1"), "{error}");
        assert_eq!(parse("m 1\n", "x"), None);
    }
}
