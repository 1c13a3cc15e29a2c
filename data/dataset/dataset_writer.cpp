// Writing a dataset: samples are collected into whole chunks, each chunk is written once, labels
// and attributes follow at the end. Room on the disk is reserved before each HDF5 write.
#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "cohort/data/dataset.hpp"
#include "core/units.hpp"

#include "data/dataset/dataset_layout.hpp"
#include "data/dataset/dataset_statistics.hpp"
#include "data/hdf5/hdf5_attributes.hpp"
#include "data/hdf5/hdf5_output.hpp"

#include <fmt/format.h>

#include <zlib.h>
#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

namespace cohort {

namespace {

/// Room kept free on the disk for what HDF5 writes about the data.
constexpr std::uint64_t kStructureBytes = std::uint64_t{1} << 20U;

/// Mean and std are attributes, which HDF5 limits to 64 KiB: samples with more features than this
/// share one value.
constexpr std::int64_t kMostChannels = 4096;

/// None of labels.
std::optional<ChannelStatistics> target_statistics_of(const DatasetSpec& spec) {
    return spec.targets > 0 ? std::optional(ChannelStatistics(spec.targets, 1, SampleType::kF32))
                            : std::nullopt;
}

/// None of tokens.
std::optional<ChannelStatistics> statistics_of(const DatasetSpec& spec) {
    if (holds_tokens(spec.type)) {
        return std::nullopt;
    }
    const std::int64_t extent = spec.sample_shape.front();
    const std::int64_t channels = extent <= kMostChannels ? extent : 1;
    return ChannelStatistics(channels, elements_of(spec.sample_shape) / channels, spec.type);
}

SampleSetInfo info_of(const DatasetSpec& spec) {
    SampleSetInfo info{.sample_shape = spec.sample_shape, .type = spec.type};
    info.classes = spec.classes > 0 ? spec.classes : std::int64_t{INT32_MAX};
    info.targets = spec.targets;
    info.vocabulary = spec.vocabulary;
    return info;
}

void check_spec(const DatasetSpec& spec) {
    const auto refuse = [](std::string_view what, std::string_view expected,
                           const std::string& got) {
        fail<UsageError>({.where = "dataset", .what = what, .expected = expected, .got = got});
    };
    const std::size_t rank = spec.sample_shape.size();
    const auto positive = [](std::int64_t extent) { return extent > 0; };
    const bool tokens = holds_tokens(spec.type);
    if ((rank != 1 && (rank != 3 || tokens)) || !std::ranges::all_of(spec.sample_shape, positive)) {
        refuse("unusable sample shape",
               tokens ? "[T], at least 1" : "[C,H,W] or [F], each at least 1",
               format_shape(spec.sample_shape));
    }
    if (tokens && spec.classes < 1) {
        refuse("tokens without a vocabulary", "the number of its tokens",
               std::to_string(spec.classes));
    }
    if (spec.compress_level < 0 || spec.compress_level > 9) {
        refuse("unusable compression level", "0 to 9", std::to_string(spec.compress_level));
    }
    if (spec.chunk_samples < 0) {
        refuse("unusable chunk", "0 or more samples", std::to_string(spec.chunk_samples));
    }
    constexpr std::int64_t kMostChunkBytes = (std::int64_t{1} << 32) - 1;  // HDF5's limit
    const std::vector<std::int64_t> stored = info_of(spec).stored_shape();
    const std::int64_t most =
        std::accumulate(stored.begin(), stored.end(),
                        kMostChunkBytes / static_cast<std::int64_t>(value_bytes(spec.type)),
                        [](std::int64_t left, std::int64_t extent) { return left / extent; });
    if (spec.chunk_samples > most) {
        refuse("chunks of 4 GiB and more", fmt::format("at most {} samples", most),
               std::to_string(spec.chunk_samples));
    }
    if (spec.targets < 0 || spec.targets > kMostTargets || (tokens && spec.targets > 0)) {
        refuse("unusable number of targets",
               tokens ? "0 of tokens" : fmt::format("0 to {}", kMostTargets),
               std::to_string(spec.targets));
    }
    if (spec.classes < 0) {
        refuse("unusable number of classes", "0 or more", std::to_string(spec.classes));
    }
}

/// A group while it is written.
struct GroupWriter {
    std::string name;
    Hdf5Handle samples;              ///< used and closed on the HDF5 thread
    std::vector<std::byte> pending;  ///< less than one chunk
    std::int64_t written = 0;        ///< samples in the file
    std::int64_t count = 0;          ///< samples written and pending
    std::vector<std::int32_t> labels;
    std::vector<float> targets;
    std::vector<std::uint32_t> chunk_checksums;
    GroupChecksum checksum;
};

}  // namespace

struct DatasetWriter::State {
    State(OutputFile target, DatasetSpec dataset_spec, Hdf5Thread& thread)
        : output(std::move(target), thread, Hdf5Priority::kInput, kStructureBytes),
          spec(std::move(dataset_spec)),
          info(info_of(spec)),
          statistics(statistics_of(spec)),
          target_statistics(target_statistics_of(spec)) {
        if (spec.chunk_samples == 0) {
            spec.chunk_samples = default_chunk_samples(info.sample_bytes());
        }
    }
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() {
        output.clean_up([this] {
            for (GroupWriter& group : groups) {
                group.samples.reset();
            }
        });
    }

    Hdf5Output output;
    DatasetSpec spec;
    SampleSetInfo info;  ///< shape, type, vocabulary; classes: a label's limit
    std::array<GroupWriter, 2> groups{{{.name = kTrainGroup}, {.name = kTestGroup}}};
    std::optional<ChannelStatistics> statistics;         ///< none of tokens
    std::optional<ChannelStatistics> target_statistics;  ///< none of labels
    std::int32_t largest_label = 0;

    [[nodiscard]] std::size_t chunk_bytes() const {
        return static_cast<std::size_t>(spec.chunk_samples) * info.sample_bytes();
    }
    [[nodiscard]] std::string where(const GroupWriter& group, const char* dataset) const {
        return output.where(fmt::format("/{}/{}", group.name, dataset));
    }
    GroupWriter& of(DatasetGroup group) { return groups[static_cast<std::size_t>(group)]; }

    // On the HDF5 thread.
    void create(GroupWriter& group) const;
    void write_chunk(GroupWriter& group, std::span<const std::byte> samples);
    [[nodiscard]] Hdf5Handle write_list(const GroupWriter& group, const char* name, hid_t type,
                                        const void* values, std::span<const hsize_t> shape);
    void write_lists(const GroupWriter& group);
    [[nodiscard]] std::int64_t classes() const {
        return spec.classes > 0 ? spec.classes : std::int64_t{largest_label} + 1;
    }
    void write_attributes();

    // On the caller's thread.
    void check(const GroupWriter& group, std::span<const std::byte> samples,
               std::span<const std::int32_t> labels, std::span<const float> targets) const;
    void check_classes_or_targets() const;
    void collect(GroupWriter& group, std::span<const std::byte> samples);
};

void DatasetWriter::State::create(GroupWriter& group) const {
    const std::string place = where(group, "samples");
    std::vector<hsize_t> chunk{static_cast<hsize_t>(spec.chunk_samples)};
    const std::vector<std::int64_t> sample = info.stored_shape();
    chunk.insert(chunk.end(), sample.begin(), sample.end());
    std::vector<hsize_t> empty = chunk;
    empty.front() = 0;
    std::vector<hsize_t> limit = chunk;
    limit.front() = H5S_UNLIMITED;
    const int rank = static_cast<int>(chunk.size());
    const Hdf5Handle space =
        hdf5_own(H5Screate_simple(rank, empty.data(), limit.data()), place, "cannot prepare");
    const Hdf5Handle create = hdf5_own(H5Pcreate(H5P_DATASET_CREATE), place, "cannot prepare");
    hdf5_check(H5Pset_chunk(create.id(), rank, chunk.data()), place, "cannot set the chunks");
    if (spec.compress_level > 0) {
        hdf5_check(H5Pset_deflate(create.id(), static_cast<unsigned>(spec.compress_level)), place,
                   "cannot compress");
    }
    group.samples =
        hdf5_own(H5Dcreate2(output.id(), fmt::format("/{}/samples", group.name).c_str(),
                            sample_hdf5_type(spec.type), space.id(), hdf5_making_groups(place).id(),
                            create.id(), hdf5_without_chunk_cache(place).id()),
                 place, "cannot create the data set");
}

void DatasetWriter::State::write_chunk(GroupWriter& group, std::span<const std::byte> samples) {
    const std::string place = where(group, "samples");
    output.reserve(chunk_bytes() + chunk_bytes() / 64);  // incompressible data grow a little
    const auto count = static_cast<std::int64_t>(samples.size() / info.sample_bytes());
    const std::vector<std::int64_t> sample = info.stored_shape();
    std::vector<hsize_t> extent{static_cast<hsize_t>(group.written + count)};
    extent.insert(extent.end(), sample.begin(), sample.end());
    hdf5_check(H5Dset_extent(group.samples.id(), extent.data()), place, "cannot grow");
    const Hdf5Rows rows = hdf5_rows(group.samples.id(), group.written, count, sample, place);
    hdf5_check(H5Dwrite(group.samples.id(), sample_hdf5_type(spec.type), rows.in_memory.id(),
                        rows.in_file.id(), H5P_DEFAULT, samples.data()),
               place, "cannot write samples");
    group.written += count;
    group.chunk_checksums.push_back(crc32_of(samples));
    group.checksum.samples = static_cast<std::uint32_t>(
        ::crc32_combine(group.checksum.samples, group.chunk_checksums.back(),
                        static_cast<z_off_t>(samples.size())));
}

/// Writes 32-bit numbers beside the samples; their data set, open.
Hdf5Handle DatasetWriter::State::write_list(const GroupWriter& group, const char* name, hid_t type,
                                            const void* values, std::span<const hsize_t> shape) {
    const std::string place = where(group, name);
    output.reserve(std::accumulate(shape.begin(), shape.end(), sizeof(std::int32_t),
                                   std::multiplies<std::uint64_t>()));
    Hdf5Handle list =
        hdf5_own(H5Dcreate2(output.id(), fmt::format("/{}/{}", group.name, name).c_str(), type,
                            hdf5_space(shape, place).id(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                 place, "cannot create the data set");
    hdf5_check(H5Dwrite(list.id(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), place,
               "cannot write");
    return list;
}

void DatasetWriter::State::write_lists(const GroupWriter& group) {
    const auto count = static_cast<hsize_t>(group.count);
    if (info.targets > 0) {
        write_list(group, kTargets, H5T_NATIVE_FLOAT, group.targets.data(),
                   std::array{count, static_cast<hsize_t>(info.targets)})
            .close(where(group, kTargets));
    } else if (!info.tokens()) {
        write_list(group, kLabels, H5T_NATIVE_INT32, group.labels.data(), std::array{count})
            .close(where(group, kLabels));
    }
    const std::string place = where(group, kChunkChecksums);
    Hdf5Handle checksums =
        write_list(group, kChunkChecksums, H5T_NATIVE_UINT32, group.chunk_checksums.data(),
                   std::array<hsize_t, 1>{group.chunk_checksums.size()});
    hdf5_write(checksums.id(), kChecksumSamplesAttribute, spec.chunk_samples, place);
    checksums.close(place);
}

void DatasetWriter::State::write_attributes() {
    const auto write = [&](const char* name, const auto& value) {
        hdf5_write(output.id(), name, value, output.path());
    };
    write(kFormatAttribute, kDatasetFormat);
    write(kVersionAttribute, std::int64_t{target_statistics ? kTargetsVersion : kDatasetVersion});
    if (target_statistics) {
        write(kTargetMeanAttribute, target_statistics->mean());
        write(kTargetStdAttribute, target_statistics->standard_deviation());
    } else {
        write(kClassesAttribute, classes());
    }
    if (statistics) {
        write(kMeanAttribute, statistics->mean());
        write(kStdAttribute, statistics->standard_deviation());
    }
    if (spec.vocabulary != nullptr) {
        output.reserve(spec.vocabulary->text.size());
        write_vocabulary(output.id(), *spec.vocabulary, output.path());
    }
    write(kSourceAttribute, spec.source);
    write(kChecksumAttribute, checksum_text(groups[0].checksum, groups[1].checksum, info));
}

void DatasetWriter::State::check(const GroupWriter& group, std::span<const std::byte> samples,
                                 std::span<const std::int32_t> labels,
                                 std::span<const float> targets) const {
    check_invariant(output.open(), "a committed dataset is not written to");
    const std::size_t count = samples.size() / info.sample_bytes();
    const std::size_t expected = info.tokens() || info.targets > 0 ? 0 : count;  // labels
    const std::size_t numbers = count * static_cast<std::size_t>(info.targets);
    if (samples.size() % info.sample_bytes() != 0 || labels.size() != expected ||
        targets.size() != numbers) {
        fail<ShapeError>({.where = where(group, "samples"),
                          .what = "samples and labels do not match",
                          .expected = fmt::format("samples of {} bytes, {} labels, {} targets",
                                                  info.sample_bytes(), expected, numbers),
                          .got = fmt::format("{} bytes, {} labels, {} targets", samples.size(),
                                             labels.size(), targets.size())});
    }
    const std::int64_t end = info.classes;
    const auto wrong =
        std::ranges::find_if(labels, [&](std::int32_t label) { return label < 0 || label >= end; });
    if (wrong != labels.end()) {
        const std::int64_t index = group.count + (wrong - labels.begin());
        fail<FileError>({.where = where(group, kLabels),
                         .what = fmt::format("label {} is out of range", index),
                         .expected = fmt::format("0 to {}", end - 1),
                         .got = fmt::format("{}", *wrong)});
    }
    check_targets(targets, info.targets, group.count, where(group, kTargets));
    check_values(samples, info, group.count, where(group, "samples"));
}

void DatasetWriter::State::check_classes_or_targets() const {
    if (!target_statistics) {
        return check_classes(classes(), groups[0].count * info.positions(),
                             output.path() + "@" + kClassesAttribute);
    }
    const std::vector<double> deviations = target_statistics->standard_deviation(0);
    const auto constant = std::ranges::find(deviations, 0.0);
    if (constant != deviations.end()) {
        const auto target = static_cast<std::size_t>(constant - deviations.begin());
        fail<FileError>({.where = where(groups[0], kTargets),
                         .what = fmt::format("target {} is the same in all train samples", target),
                         .expected = "numbers that differ",
                         .got = fmt::format("{}", target_statistics->mean()[target]),
                         .hint = "leaving this target out"});
    }
}

/// Writes complete chunks, keeps the rest.
void DatasetWriter::State::collect(GroupWriter& group, std::span<const std::byte> samples) {
    while (!samples.empty()) {
        const std::size_t part = std::min(chunk_bytes() - group.pending.size(), samples.size());
        group.pending.insert(group.pending.end(), samples.begin(),
                             samples.begin() + static_cast<std::ptrdiff_t>(part));
        samples = samples.subspan(part);
        if (group.pending.size() == chunk_bytes()) {
            output.run([&] { write_chunk(group, group.pending); });
            group.pending.clear();
        }
    }
}

DatasetWriter::DatasetWriter(OutputFile file, DatasetSpec spec, Hdf5Thread& thread) {
    check_spec(spec);
    state_ = std::make_unique<State>(std::move(file), std::move(spec), thread);
    state_->output.run([this] {
        for (GroupWriter& group : state_->groups) {
            state_->create(group);
        }
    });
}

DatasetWriter::~DatasetWriter() = default;

void DatasetWriter::append(DatasetGroup group, std::span<const std::byte> samples,
                           std::span<const std::int32_t> labels, std::span<const float> targets) {
    State& state = *state_;
    GroupWriter& to = state.of(group);
    state.check(to, samples, labels, targets);
    for (const std::int32_t label : labels) {
        state.largest_label = std::max(state.largest_label, label);
    }
    to.labels.insert(to.labels.end(), labels.begin(), labels.end());
    to.targets.insert(to.targets.end(), targets.begin(), targets.end());
    to.checksum.labels = crc32_of(std::as_bytes(labels), to.checksum.labels);
    to.checksum.labels = crc32_of(std::as_bytes(targets), to.checksum.labels);
    to.count += static_cast<std::int64_t>(samples.size() / state.info.sample_bytes());
    if (group == DatasetGroup::kTrain && state.statistics) {
        state.statistics->add(samples);
    }
    if (group == DatasetGroup::kTrain && state.target_statistics) {
        state.target_statistics->add(std::as_bytes(targets));
    }
    state.collect(to, samples);
}

std::int64_t DatasetWriter::samples(DatasetGroup group) const noexcept {
    return state_->of(group).count;
}

void DatasetWriter::commit() {
    State& state = *state_;
    const std::string& path = state.output.path();
    check_invariant(state.output.open(), "a dataset is committed once");
    for (const GroupWriter& group : state.groups) {
        require_file(group.count > 0, fmt::format("{}:/{}", path, group.name), "the set is empty",
                     "at least one sample", "none");
    }
    state.check_classes_or_targets();
    const std::uint64_t bytes = state.output.run([&] {
        for (GroupWriter& group : state.groups) {
            if (!group.pending.empty()) {
                state.write_chunk(group, group.pending);
                group.pending.clear();
            }
            group.samples.close(state.where(group, "samples"));
            state.write_lists(group);
        }
        state.output.reserve(0);
        state.write_attributes();
        return state.output.close();
    });
    state.output.target().truncate(bytes);
    state.output.target().commit();
}

}  // namespace cohort
