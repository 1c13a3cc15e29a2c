#include "train/worker/piece_inbox.hpp"

namespace cohort {

PieceInbox::PieceInbox(Device& device, std::int64_t floats, int pieces, Wire wire)
    : floats_(floats) {
    for (int piece = 0; piece < pieces; ++piece) {
        const std::int64_t begin = floats * piece / pieces;
        const std::int64_t end = floats * (piece + 1) / pieces;
        parts_.push_back(std::make_unique<PushStaging>(device, end - begin, wire, true));
    }
}

std::span<std::byte> PieceInbox::accept(const Message& announcement, std::uint64_t bytes) {
    if (static_cast<NodeMessage>(announcement.kind) != NodeMessage::kPiece) {
        return {};
    }
    const auto header = decode<NodePieceHeader>(announcement.body);
    const Message push{.from = announcement.from,
                       .kind = announcement.kind,
                       .body = encode(PushHeader{header.sum})};
    return part(header.piece).accept(push, bytes);
}

void PieceInbox::arrived(const NodePieceHeader& header) {
    (void)part(header.piece).arrived(header.sum);
}

void PieceInbox::discard(const PushId& sum) {
    for (const auto& one : parts_) {
        one->discard(sum);
    }
}

void PieceInbox::discard_sums(std::int64_t version) {
    for (const auto& one : parts_) {
        one->discard_sums(version);
    }
}

std::vector<int> PieceInbox::coming() const {
    std::vector<int> ranks;
    for (const auto& one : parts_) {
        const std::vector<int> some = one->coming();
        ranks.insert(ranks.end(), some.begin(), some.end());
    }
    return ranks;
}

}  // namespace cohort
