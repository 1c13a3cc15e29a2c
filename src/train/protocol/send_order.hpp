#pragma once

#include "train/protocol/links.hpp"
#include "train/protocol/protocol.hpp"

namespace cohort {

/// Sends a protocol message from the coordinator.
template <class Kind, class Body>
void send_order(const Links& links, Address to, Kind kind, const Body& body) {
    links.send(to, Port::kCoordinator, kind, body);
}

template <class Kind, class Body>
void send_worker(const Links& links, int worker, Kind kind, const Body& body) {
    send_order(links, {links.map.rank_of_worker(worker), Port::kWorker}, kind, body);
}

template <class Body>
void send_server(const Links& links, int server, MessageKind kind, const Body& body) {
    send_order(links, {links.map.rank_of_server(server), Port::kServer}, kind, body);
}

/// To all servers.
template <class Body>
void send_servers(const Links& links, MessageKind kind, const Body& body) {
    for (int server = 0; server < links.map.servers; ++server) {
        send_server(links, server, kind, body);
    }
}

}  // namespace cohort
