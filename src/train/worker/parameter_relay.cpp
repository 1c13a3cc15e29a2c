#include "train/worker/parameter_relay.hpp"

#include <utility>

#include "train/protocol/complete_transfers.hpp"

namespace cohort {

ParameterRelay::~ParameterRelay() {
    for (auto& [key, piece] : pieces_) {
        keep_for_good(std::move(piece.values));
    }
}

ParameterRelay::Key ParameterRelay::key_of(const PassOnHeader& header) {
    const ParametersHeader& about = header.parameters;
    return {about.version, about.server, about.piece, header.stops.at(0).lag};
}

std::span<std::byte> ParameterRelay::accept(const Message& announcement, std::uint64_t bytes) {
    const Key key = key_of(decode<PassOnHeader>(announcement.body));
    const std::lock_guard lock(mutex_);
    if (bytes == 0 || pieces_.contains(key)) {
        return {};
    }
    const auto size = static_cast<std::int64_t>((bytes + sizeof(float) - 1) / sizeof(float));
    Piece& piece = pieces_[key];
    piece = {.values = pools_.try_emplace(size, device_, size).first->second.take(),
             .bytes = static_cast<std::size_t>(bytes),
             .from = announcement.from.rank};
    return {reinterpret_cast<std::byte*>(piece.values.get()), piece.bytes};
}

/// Without values when it was not accepted.
ParameterRelay::Piece ParameterRelay::take(const PassOnHeader& header) {
    const std::lock_guard lock(mutex_);
    const auto node = pieces_.extract(key_of(header));
    return node.empty() ? Piece() : std::move(node.mapped());
}

void ParameterRelay::arrived(const PassOnHeader& header) {
    const Piece piece = take(header);
    if (piece.values == nullptr) {
        return;
    }
    const std::span values(reinterpret_cast<const std::byte*>(piece.values.get()), piece.bytes);
    const auto send = [&](Address to, auto kind, const auto& about) {
        comm_
            .start_transfer(to, Port::kNode, kind, about, values, ChunkOrder::kForward,
                            piece.values)
            ->release(values.size());
    };
    for (std::size_t stop = 1; stop < header.stops.size(); ++stop) {
        if (header.stops[stop].from == 0) {
            send({header.stops[stop].rank, Port::kNode}, NodeMessage::kPassOn,
                 PassOnHeader{header.parameters, stops_from(header.stops, stop)});
        }
    }
    for (const ReleaseOrder& release : header.stops.at(0).releases) {
        ParametersHeader mine = header.parameters;
        mine.incarnation = release.incarnation;
        mine.outcomes = release.outcomes;
        send({comm_.map.rank_of_worker(release.worker), Port::kWorker}, MessageKind::kParameters,
             mine);
    }
}

std::vector<int> ParameterRelay::coming() const {
    const std::lock_guard lock(mutex_);
    std::vector<int> ranks;
    for (const auto& [key, piece] : pieces_) {
        ranks.push_back(piece.from);
    }
    return ranks;
}

}  // namespace cohort
