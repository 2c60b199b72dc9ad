//! The floor of `fetch`: connections that stay, each a thread that asks for its share of the files and throws the bodies
//! away. `get FILE CONNECTIONS`, where FILE has a URL a line, all of one server; compiled by the bench with rustc alone.

use std::io::{Read, Write};
use std::net::TcpStream;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let list = std::fs::read_to_string(&args[1]).unwrap();
    let urls: Vec<(&str, &str)> = list.lines().map(|url| url[7..].split_once('/').unwrap()).collect();
    let connections: usize = args[2].parse().unwrap();
    std::thread::scope(|scope| {
        for share in urls.chunks(urls.len().div_ceil(connections)) {
            std::thread::Builder::new().stack_size(1 << 18).spawn_scoped(scope, || ask(share)).unwrap();
        }
    });
}

fn ask(urls: &[(&str, &str)]) {
    let mut server = TcpStream::connect(urls[0].0).unwrap();
    server.set_nodelay(true).unwrap();
    let mut buf = vec![0; 1 << 16];
    for (host, path) in urls {
        server.write_all(format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).unwrap();
        body(&mut server, &mut buf);
    }
}

/// Reads an answer, all of whose head comes with the first bytes.
fn body(server: &mut TcpStream, buf: &mut [u8]) {
    let n = server.read(buf).unwrap();
    let end = buf[..n].windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
    let head = std::str::from_utf8(&buf[..end]).unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let length = head.split("Content-Length: ").nth(1).unwrap().split('\r').next().unwrap();
    let mut left = length.parse::<usize>().unwrap() + end - n;
    while left > 0 {
        left -= server.read(buf).unwrap();
    }
}
