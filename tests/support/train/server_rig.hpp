#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cohort/data/hdf5_thread.hpp"
#include "support/core/patience.hpp"
#include "support/train/local_network.hpp"
#include "support/train/server_pushes.hpp"
#include "train/server/server_loop.hpp"

namespace cohort::test {

inline constexpr auto kPushKind = static_cast<std::uint16_t>(MessageKind::kPush);

/// Memory for what arrives at one port, by sender.
class CollectingSink final : public TransferSink {
public:
    std::span<std::byte> accept(const Message& announcement, std::uint64_t bytes) override {
        const std::lock_guard lock(mutex_);
        auto& queue = arriving_[announcement.from.rank];
        queue.emplace_back(bytes / sizeof(float));
        return std::as_writable_bytes(std::span(queue.back()));
    }
    /// What a message announced that has come out of the mailbox.
    [[nodiscard]] std::vector<float> take(const Message& message) {
        const std::lock_guard lock(mutex_);
        auto& queue = arriving_.at(message.from.rank);
        std::vector<float> values = std::move(queue.front());
        queue.pop_front();
        return values;
    }

private:
    std::mutex mutex_;
    std::map<int, std::deque<std::vector<float>>> arriving_;
};

/// A push on its way to all servers.
struct Sending {
    std::vector<std::vector<float>> parts;  ///< by server
    std::vector<std::shared_ptr<OutgoingTransfer>> transfers;
};

/// S servers on threads, and everybody else.
class ServerRig : public testing::Test {
protected:
    static constexpr int kWorkers = 3;

    void start(int servers, double stall_limit_s = 60, const OptimizerOptions& optimizer = {}) {
        network_ =
            std::make_unique<test::LocalNetwork>(servers + kWorkers, servers, 4096, stall_limit_s);
        ranges_ = cut_shards(graph_, servers);
        coordinator().set_sink(Port::kCoordinator, &gathered_);
        for (int worker = 0; worker < kWorkers; ++worker) {
            messenger_of(worker).set_sink(Port::kWorker, &parameters_[worker]);
        }
        for (int server = 0; server < servers; ++server) {
            loops_.push_back(std::make_unique<ServerLoop>(
                CommContext{network_->messenger(server), network_->operations(server),
                            network_->map(), &network_->membership()},
                ServerParts{.graph = graph_,
                            .optimizer = optimizer,
                            .seed = 7,
                            .threads = 1,
                            .hdf5 = &hdf5_},
                server));
        }
        for (const auto& loop : loops_) {
            threads_.emplace_back([this, &loop] { run(*loop); });
        }
    }

    void TearDown() override {
        if (!threads_.empty()) {
            stop();
        }
    }

    void stop() {
        order(MessageKind::kStop, Empty{});
        for (std::thread& thread : threads_) {
            thread.join();
        }
        threads_.clear();
    }

    void run(ServerLoop& loop) {
        try {
            loop.run();
        } catch (const std::exception& error) {
            const std::lock_guard lock(mutex_);
            errors_.emplace_back(error.what());
        }
    }

    [[nodiscard]] int servers() const { return network_->map().servers; }
    [[nodiscard]] Messenger& coordinator() { return network_->messenger(0); }
    [[nodiscard]] Messenger& messenger_of(int worker) {
        return network_->messenger(network_->map().rank_of_worker(worker));
    }

    template <class Body>
    void order(MessageKind kind, const Body& body) {
        for (int server = 0; server < servers(); ++server) {
            coordinator().send({server, Port::kServer}, Port::kCoordinator,
                               static_cast<std::uint16_t>(kind), encode(body));
        }
    }

    /// Servers own these shares from now on.
    void move(const std::vector<double>& shares) {
        ranges_ = cut_shards(graph_, shares);
        order(MessageKind::kReshard, layout_of(++layout_, ranges_));
        for (int server = 0; server < servers(); ++server) {
            const Message message =
                receive(coordinator(), Port::kCoordinator, MessageKind::kResharded);
            EXPECT_EQ(decode<ReshardedNote>(message.body).layout, layout_);
        }
    }

    /// Announces a push to all servers; nothing is released yet.
    std::shared_ptr<Sending> announce(const TestPush& push) {
        auto sending = std::make_shared<Sending>();
        for (const ShardRange& range : ranges_) {
            sending->parts.push_back(push.part(range));
        }
        for (const ShardRange& range : ranges_) {
            const auto& part = sending->parts[static_cast<std::size_t>(range.part)];
            sending->transfers.push_back(messenger_of(push.id.worker)
                                             .start_transfer({range.part, Port::kServer},
                                                             Port::kWorker, kPushKind,
                                                             encode(PushHeader{push.id, layout_}),
                                                             std::as_bytes(std::span(part)),
                                                             ChunkOrder::kBackward, sending));
        }
        return sending;
    }

    void send_all(const std::shared_ptr<Sending>& sending) {
        for (std::size_t server = 0; server < sending->transfers.size(); ++server) {
            sending->transfers[server]->release(sending->parts[server].size() * sizeof(float));
        }
    }
    void push(const TestPush& push) { send_all(announce(push)); }

    Message receive(Messenger& messenger, Port port, MessageKind kind) {
        std::optional<Message> message = messenger.mailbox(port).receive(kPatience);
        if (!message || message->kind != static_cast<std::uint16_t>(kind)) {
            throw std::runtime_error("another message was expected");
        }
        return *std::move(message);
    }

    /// All servers' parts of the next parameters of a worker, put together. One server may be
    /// updates ahead of another.
    std::vector<float> receive_parameters(int worker, std::int64_t version) {
        auto& waiting = waiting_[worker];
        waiting.resize(ranges_.size());
        const auto lacks = [](const auto& queue) { return queue.empty(); };
        while (std::any_of(waiting.begin(), waiting.end(), lacks)) {
            const Message message =
                receive(messenger_of(worker), Port::kWorker, MessageKind::kParameters);
            const auto header = decode<ParametersHeader>(message.body);
            waiting.at(static_cast<std::size_t>(header.server))
                .push_back({header.version, parameters_[worker].take(message)});
        }
        std::vector<std::vector<float>> parts;
        for (auto& queue : waiting) {
            EXPECT_EQ(queue.front().first, version);
            parts.push_back(std::move(queue.front().second));
            queue.pop_front();
        }
        return joined(parts);
    }

    /// Parameters, then state, from what the servers sent.
    std::vector<float> joined(const std::vector<std::vector<float>>& parts) const {
        std::vector<float> all;
        for (const ShardRange& range : ranges_) {
            const auto& part = parts[static_cast<std::size_t>(range.part)];
            all.insert(all.end(), part.begin(), part.begin() + range.parameters());
        }
        all.insert(all.end(), parts.back().end() - ranges_.back().state, parts.back().end());
        return all;
    }

    /// Until all servers have reported these pushes; others may be reported meanwhile.
    void receive_staged(const std::set<PushId>& pushes) {
        for (std::size_t missing = pushes.size() * ranges_.size(); missing > 0;) {
            const Message message =
                receive(coordinator(), Port::kCoordinator, MessageKind::kPushReceived);
            missing -= pushes.count(decode<PushReceived>(message.body).push);
        }
    }

    static std::vector<float> with_state(const ShardGroup& group) {
        std::vector<float> all = group.parameters();
        const std::vector<float> state = group.state();
        all.insert(all.end(), state.begin(), state.end());
        return all;
    }

    Graph graph_ = test::server_graph();
    Hdf5Thread hdf5_;
    std::unique_ptr<test::LocalNetwork> network_;
    std::vector<ShardRange> ranges_;
    std::uint32_t layout_ = 0;
    CollectingSink gathered_;
    std::map<int, CollectingSink> parameters_;
    std::map<int, std::vector<std::deque<std::pair<std::int64_t, std::vector<float>>>>> waiting_;
    std::vector<std::unique_ptr<ServerLoop>> loops_;
    std::vector<std::thread> threads_;
    std::mutex mutex_;
    std::vector<std::string> errors_;
};

}  // namespace cohort::test
