#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "cohort/comm/membership.hpp"
#include "cohort/comm/messenger.hpp"
#include "cohort/comm/operations.hpp"
#include "cohort/comm/rank_map.hpp"
#include "core/bytes.hpp"
#include "train/protocol/protocol.hpp"

namespace cohort {

class MirrorStore;

/// A role's means of communication with other ranks; every member outlives the role.
struct CommContext {
    Messenger& messenger;
    OperationBoard& operations;
    const RankMap& map;
    Membership* membership = nullptr;  ///< null: nobody is ever lost
    MirrorStore* mirrors = nullptr;    ///< null: this process holds no copies of the run's state

    /// Sends a protocol message.
    template <class Kind, class Body>
    void send(Address to, Port from, Kind kind, const Body& body) const {
        messenger.send(to, from, static_cast<std::uint16_t>(kind), encode(body));
    }
    /// Announces a transfer; nothing leaves before it is released.
    /// @param owner  keeps the bytes alive until they have left
    template <class Kind, class Header>
    [[nodiscard]] std::shared_ptr<OutgoingTransfer> start_transfer(
        Address to, Port from, Kind kind, const Header& header, std::span<const std::byte> bytes,
        ChunkOrder order, const std::shared_ptr<const void>& owner) const {
        return messenger.start_transfer(to, from, static_cast<std::uint16_t>(kind), encode(header),
                                        bytes, order, owner);
    }
};

/// Sends a protocol message from the coordinator.
template <class Kind, class Body>
void send_order(const CommContext& comm, Address to, Kind kind, const Body& body) {
    comm.send(to, Port::kCoordinator, kind, body);
}

template <class Kind, class Body>
void send_worker(const CommContext& comm, int worker, Kind kind, const Body& body) {
    send_order(comm, {comm.map.rank_of_worker(worker), Port::kWorker}, kind, body);
}

template <class Body>
void send_server(const CommContext& comm, int server, MessageKind kind, const Body& body) {
    send_order(comm, {comm.map.rank_of_server(server), Port::kServer}, kind, body);
}

/// To all servers.
template <class Body>
void send_servers(const CommContext& comm, MessageKind kind, const Body& body) {
    for (int server = 0; server < comm.map.servers; ++server) {
        send_server(comm, server, kind, body);
    }
}

}  // namespace cohort
