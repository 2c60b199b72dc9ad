//! A web server that answers every request 100 ms after it came, or so many, with 1 KB: `delay PORT [MS]`.
//! A thread for each connection; compiled by the bench with rustc alone.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

fn main() {
    let port: u16 = std::env::args().nth(1).unwrap().parse().unwrap();
    let delay = Duration::from_millis(std::env::args().nth(2).map_or(100, |text| text.parse().unwrap()));
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    for connection in listener.incoming().flatten() {
        thread::Builder::new().stack_size(32 << 10).spawn(move || serve(connection, delay)).unwrap();
    }
}

/// A request fits into one read here, and none follows before its answer.
fn serve(mut connection: TcpStream, delay: Duration) {
    let mut answer = b"HTTP/1.1 200 OK\r\nContent-Length: 1024\r\n\r\n\xff\xd8\xff".to_vec();
    answer.resize(answer.len() + 1021, 0);
    let mut request = [0; 4096];
    connection.set_nodelay(true).unwrap();
    while let Ok(1..) = connection.read(&mut request) {
        thread::sleep(delay);
        if connection.write_all(&answer).is_err() {
            return;
        }
    }
}
