#include "train/mirror/mirror_keeper.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "train/protocol/complete_transfers.hpp"

namespace cohort {

int mirror_holder(const RankMap& map, const Membership* membership, int owner) {
    const RankInfo& own = map.ranks[static_cast<std::size_t>(owner)];
    const auto others = [&](bool elsewhere, bool workers) {
        std::vector<int> found;
        for (const RankInfo& one : map.ranks) {
            const bool out = membership != nullptr && membership->excluded(one.rank);
            if (!out && one.rank != owner && (one.node != own.node) == elsewhere &&
                (one.role == Role::kWorker) == workers) {
                found.push_back(one.rank);
            }
        }
        return found;
    };
    for (const bool elsewhere : {true, false}) {
        for (const bool workers : {true, false}) {
            if (const std::vector<int> found = others(elsewhere, workers); !found.empty()) {
                return found[static_cast<std::size_t>(owner) % found.size()];
            }
        }
    }
    return owner;
}

void MirrorSender::send(const std::string& mirror, const ShardSnapshot& snapshot) const {
    const MirrorPart part = pack(mirror, snapshot);
    store_.put(part);
    const int own = comm_.messenger.rank();
    const int holder = mirror_holder(comm_.map, comm_.membership, own);
    if (holder == own) {
        return;
    }
    const auto bytes = std::as_bytes(std::span(*part.floats));
    const auto transfer =
        comm_.start_transfer({holder, Port::kMirror}, Port::kMirror, MirrorMessage::kPart,
                             part.header, bytes, ChunkOrder::kForward, part.floats);
    transfer->release(bytes.size());
    while (!transfer->done() &&
           !(comm_.membership != nullptr && comm_.membership->excluded(holder))) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

std::optional<MirrorSender> mirror_sender(const CommContext& comm) {
    return comm.mirrors == nullptr ? std::nullopt
                                   : std::optional(MirrorSender(comm, *comm.mirrors));
}

MirrorKeeper::MirrorKeeper(CommContext comm, MirrorStore& store) : comm_(comm), store_(store) {
    comm_.messenger.set_sink(Port::kMirror, this);
    thread_ = std::thread([this] { run(); });
}

MirrorKeeper::~MirrorKeeper() {
    comm_.messenger.set_sink(Port::kMirror, nullptr);
    comm_.send({comm_.messenger.rank(), Port::kMirror}, Port::kMirror, MirrorMessage::kEnd,
               Empty());
    thread_.join();
    const std::lock_guard lock(mutex_);
    for (Coming& one : coming_) {
        keep_for_good(std::move(one.floats));
    }
}

std::span<std::byte> MirrorKeeper::accept(const Message& announcement, std::uint64_t bytes) {
    try {
        auto floats = std::make_shared<std::vector<float>>(bytes / sizeof(float));
        const std::lock_guard lock(mutex_);
        coming_.push_back({announcement.from, announcement.body, floats});
        return std::as_writable_bytes(std::span(*floats));
    } catch (const std::bad_alloc&) {
        return {};  // one copy less
    }
}

void MirrorKeeper::run() {
    constexpr Clock::Seconds kLook{60};
    try {
        while (true) {
            const std::optional<Message> message =
                comm_.messenger.mailbox(Port::kMirror).receive(kLook);
            if (message && static_cast<MirrorMessage>(message->kind) == MirrorMessage::kEnd) {
                return;
            }
            if (message) {
                arrived(*message);
            }
        }
    } catch (const WorldLost&) {
        return;  // what is held is for the next World
    }
}

void MirrorKeeper::arrived(const Message& message) {
    if (static_cast<MirrorMessage>(message.kind) == MirrorMessage::kBooks) {
        store_.complete(decode<MirrorBooks>(message.body));
        return;
    }
    std::shared_ptr<const std::vector<float>> floats;
    {
        const std::lock_guard lock(mutex_);
        const auto found = std::ranges::find_if(coming_, [&](const Coming& one) {
            return one.from == message.from && one.header == message.body;
        });
        if (found == coming_.end()) {
            return;  // there was no memory for it
        }
        floats = std::move(found->floats);
        coming_.erase(found);
    }
    store_.put({.header = decode<MirrorHeader>(message.body), .floats = std::move(floats)});
}

}  // namespace cohort
