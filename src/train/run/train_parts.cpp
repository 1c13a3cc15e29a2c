#include "train/run/train_parts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <system_error>

#include "cohort/core/error.hpp"
#include "cohort/data/dataset.hpp"
#include "cohort/model/zoo.hpp"
#include "core/units.hpp"

namespace cohort {

std::string set_identity(const SampleSetInfo& set) {
    return fmt::format("{} x [{}] {}, chunks of {}, {} classes, mean {}, std {}, {}", set.samples,
                       fmt::join(set.sample_shape, ","),
                       set.type == SampleType::kU8 ? "uint8" : "float32", set.chunk_samples,
                       set.classes, fmt::join(set.mean, " "), fmt::join(set.std, " "),
                       set.checksum.empty() ? "no checksum" : set.checksum);
}

std::vector<std::pair<std::string, std::string>> run_identity(const TrainOptions& options,
                                                              const SampleSetInfo& train) {
    std::vector<std::pair<std::string, std::string>> facts{
        {"model", options.model},
        {"dataset", set_identity(train)},
        {"optimizer", std::string(word_of(options.optimizer))},
        {"batch", std::to_string(options.batch)},
        {"seed", std::to_string(options.seed)},
    };
    if (!computes_network(options)) {
        facts.emplace_back("compute", options.compute);
    }
    return facts;
}

std::string device_of_this_rank(std::string_view option, const RankMap& map, int rank) {
    std::string device = device_of_rank(option, map, rank, gpus_for(option));
    if (option == "auto" && device == "cpu" && map.place_in_role(rank) == 0) {
        warn_of_unused_gpus();
    }
    return device;
}

HostAllocator host_allocator(Device& device) {
    return [&device](std::size_t bytes) {
        auto buffer = std::make_shared<Buffer>(device.allocate_host(bytes));
        return std::shared_ptr<void>(buffer, buffer->data());
    };
}

ReplicaOptions replica_options(const Device& device, Precision precision, bool deterministic,
                               const std::string& tuning_file) {
    ReplicaOptions options{.deterministic = deterministic, .precision = precision};
    if (device.kind() != DeviceKind::kCpu && !deterministic && !tuning_file.empty()) {
        std::error_code error;  // an error is reported when the file is written
        std::filesystem::create_directories(std::filesystem::path(tuning_file).parent_path(),
                                            error);
        options.tuning_file = tuning_file;
    }
    return options;
}

BatchView view_of(const LoadedBatch& batch) {
    return {.samples = batch.samples().data(),
            .labels = batch.labels().data(),
            .sample_ids = batch.sample_ids().data(),
            .size = batch.size(),
            .epoch = batch.epoch()};
}

}  // namespace cohort
