#include "train/protocol/complete_transfers.hpp"

#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "train/protocol/protocol.hpp"

namespace cohort {

/// 1. What is announced from now on is thrown away.
/// 2. A transfer to itself follows, in the communication thread, all that was accepted before.
/// 3. What was accepted has to arrive: senders finish what they have begun.
void complete_transfers(const CommContext& comm, Port port, std::string_view name,
                        const std::function<std::vector<int>()>& still_coming,
                        const std::function<void(const Message&)>& arrived) {
    constexpr auto kMark = static_cast<std::uint16_t>(MessageKind::kStop);
    constexpr Clock::Seconds kLook{1};  // a lost rank sends no message
    Messenger& messenger = comm.messenger;
    const Address here{messenger.rank(), port};
    const auto missing = [&comm, &still_coming] {
        std::vector<int> ranks = still_coming();
        std::erase_if(ranks, [&comm](int rank) {
            return comm.membership != nullptr && comm.membership->excluded(rank);
        });
        return ranks;
    };
    const auto mark = std::make_shared<const std::byte>();
    messenger.set_sink(port, nullptr);
    messenger.start_transfer(here, port, kMark, {}, {mark.get(), 1}, ChunkOrder::kForward, mark)
        ->release(1);
    auto wait = comm.operations.begin(name, 0, missing);
    bool fenced = false;
    while (!fenced || !missing().empty()) {
        const std::optional<Message> message = messenger.mailbox(port).receive(kLook);
        if (!message) {
            continue;
        }
        wait.renew();
        if (message->kind == kMark && message->from == here) {
            fenced = true;
        } else {
            arrived(*message);
        }
    }
}

void keep_for_good(std::shared_ptr<const void> memory) {
    static std::mutex mutex;
    static auto& kept = *new std::vector<std::shared_ptr<const void>>;  // never destroyed
    const std::lock_guard lock(mutex);
    kept.push_back(std::move(memory));
}

}  // namespace cohort
