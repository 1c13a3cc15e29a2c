// Writing a dataset: samples are collected into whole chunks, each chunk is written once, labels
// and attributes follow at the end. Room on the disk is reserved before each HDF5 write.
#include "cohort/core/error.hpp"
#include "cohort/data/dataset.hpp"
#include "core/units.hpp"

#include "data/dataset/dataset_checks.hpp"
#include "data/dataset/dataset_layout.hpp"
#include "data/dataset/dataset_statistics.hpp"
#include "data/hdf5/file_io.hpp"
#include "data/hdf5/hdf5_attributes.hpp"

#include <fmt/format.h>

#include <zlib.h>
#include <algorithm>
#include <array>
#include <exception>
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

std::int64_t statistics_channels(const DatasetSpec& spec) {
    const std::int64_t channels = spec.sample_shape.front();
    return channels <= kMostChannels ? channels : 1;
}

void check_spec(const DatasetSpec& spec) {
    const auto refuse = [](std::string_view what, std::string_view expected,
                           const std::string& got) {
        fail<UsageError>({.where = "dataset", .what = what, .expected = expected, .got = got});
    };
    const std::size_t rank = spec.sample_shape.size();
    const auto positive = [](std::int64_t extent) { return extent > 0; };
    if ((rank != 1 && rank != 3) ||
        !std::all_of(spec.sample_shape.begin(), spec.sample_shape.end(), positive)) {
        refuse("unusable sample shape", "[C,H,W] or [F], each at least 1",
               format_shape(spec.sample_shape));
    }
    if (spec.compress_level < 0 || spec.compress_level > 9) {
        refuse("unusable compression level", "0 to 9", std::to_string(spec.compress_level));
    }
    if (spec.chunk_samples < 0) {
        refuse("unusable chunk", "0 or more samples", std::to_string(spec.chunk_samples));
    }
    constexpr std::int64_t kMostChunkBytes = (std::int64_t{1} << 32) - 1;  // HDF5's limit
    const std::int64_t most =
        std::accumulate(spec.sample_shape.begin(), spec.sample_shape.end(),
                        kMostChunkBytes / (spec.type == SampleType::kU8 ? 1 : 4),
                        [](std::int64_t left, std::int64_t extent) { return left / extent; });
    if (spec.chunk_samples > most) {
        refuse("chunks of 4 GiB and more", fmt::format("at most {} samples", most),
               std::to_string(spec.chunk_samples));
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
    std::vector<std::int32_t> labels;
    std::vector<std::uint32_t> chunk_checksums;
    GroupChecksum checksum;
};

}  // namespace

struct DatasetWriter::State {
    State(OutputFile target, DatasetSpec dataset_spec, Hdf5Thread& hdf5)
        : output(std::move(target)),
          spec(std::move(dataset_spec)),
          thread(hdf5),
          statistics(statistics_channels(spec), elements() / statistics_channels(spec), spec.type) {
        if (spec.chunk_samples == 0) {
            spec.chunk_samples = default_chunk_samples(sample_bytes());
        }
    }
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() {
        try {
            thread.run([this] { close_all(); });
        } catch (const std::exception&) {
            // Queueing failed for lack of memory: the temporary file is removed all the same.
            return;
        }
    }

    AtomicFile output;
    DatasetSpec spec;
    Hdf5Thread& thread;
    Hdf5Handle file;
    std::array<GroupWriter, 2> groups;
    ChannelStatistics statistics;
    std::int32_t largest_label = 0;

    [[nodiscard]] std::int64_t elements() const {
        return std::accumulate(spec.sample_shape.begin(), spec.sample_shape.end(), std::int64_t{1},
                               std::multiplies<>());
    }
    [[nodiscard]] std::size_t sample_bytes() const {
        return static_cast<std::size_t>(elements()) * (spec.type == SampleType::kU8 ? 1 : 4);
    }
    [[nodiscard]] std::size_t chunk_bytes() const {
        return static_cast<std::size_t>(spec.chunk_samples) * sample_bytes();
    }
    [[nodiscard]] std::string where(const GroupWriter& group, const char* dataset) const {
        return fmt::format("{}:/{}/{}", output.path(), group.name, dataset);
    }
    GroupWriter& of(DatasetGroup group) { return groups[static_cast<std::size_t>(group)]; }

    // On the HDF5 thread.
    void reserve(std::uint64_t bytes) {
        output.reserve(hdf5_file_bytes(file, output.path()) + bytes + kStructureBytes);
    }
    void close_all() noexcept {
        for (GroupWriter& group : groups) {
            group.samples.reset();
        }
        file.reset();
    }
    void create(GroupWriter& group);
    void write_chunk(GroupWriter& group, std::span<const std::byte> samples);
    [[nodiscard]] Hdf5Handle write_list(const GroupWriter& group, const char* name, hid_t type,
                                        const void* values, hsize_t count);
    void write_lists(const GroupWriter& group);
    [[nodiscard]] std::int64_t classes() const {
        return spec.classes > 0 ? spec.classes : std::int64_t{largest_label} + 1;
    }
    void write_attributes();

    // On the caller's thread.
    void check(const GroupWriter& group, std::span<const std::byte> samples,
               std::span<const std::int32_t> labels) const;
    void collect(GroupWriter& group, std::span<const std::byte> samples);
};

void DatasetWriter::State::create(GroupWriter& group) {
    const std::string place = where(group, "samples");
    std::vector<hsize_t> chunk{static_cast<hsize_t>(spec.chunk_samples)};
    chunk.insert(chunk.end(), spec.sample_shape.begin(), spec.sample_shape.end());
    std::vector<hsize_t> empty = chunk;
    empty.front() = 0;
    std::vector<hsize_t> limit = chunk;
    limit.front() = H5S_UNLIMITED;
    const int rank = static_cast<int>(chunk.size());
    const auto prepared = [&](hid_t list, Hdf5Handle::Close close) {
        return hdf5_own(list, close, place, "cannot prepare");
    };
    const Hdf5Handle space = prepared(H5Screate_simple(rank, empty.data(), limit.data()), H5Sclose);
    const Hdf5Handle create = prepared(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    hdf5_check(H5Pset_chunk(create.id(), rank, chunk.data()), place, "cannot set the chunks");
    if (spec.compress_level > 0) {
        hdf5_check(H5Pset_deflate(create.id(), static_cast<unsigned>(spec.compress_level)), place,
                   "cannot compress");
    }
    const Hdf5Handle access = prepared(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
    hdf5_check(H5Pset_chunk_cache(access.id(), 0, 0, 1.0), place, "cannot prepare");
    const Hdf5Handle links = prepared(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
    hdf5_check(H5Pset_create_intermediate_group(links.id(), 1), place, "cannot prepare");
    group.samples = hdf5_own(
        H5Dcreate2(file.id(), fmt::format("/{}/samples", group.name).c_str(),
                   sample_hdf5_type(spec.type), space.id(), links.id(), create.id(), access.id()),
        H5Dclose, place, "cannot create the data set");
}

void DatasetWriter::State::write_chunk(GroupWriter& group, std::span<const std::byte> samples) {
    const std::string place = where(group, "samples");
    reserve(chunk_bytes() + chunk_bytes() / 64);  // incompressible data grow a little
    std::vector<hsize_t> count{samples.size() / sample_bytes()};
    count.insert(count.end(), spec.sample_shape.begin(), spec.sample_shape.end());
    std::vector<hsize_t> start(count.size(), 0);
    start.front() = static_cast<hsize_t>(group.written);
    std::vector<hsize_t> extent = count;
    extent.front() += start.front();
    hdf5_check(H5Dset_extent(group.samples.id(), extent.data()), place, "cannot grow");
    const Hdf5Handle in_file =
        hdf5_own(H5Dget_space(group.samples.id()), H5Sclose, place, "cannot select");
    hdf5_check(H5Sselect_hyperslab(in_file.id(), H5S_SELECT_SET, start.data(), nullptr,
                                   count.data(), nullptr),
               place, "cannot select");
    const Hdf5Handle in_memory =
        hdf5_own(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr), H5Sclose,
                 place, "cannot select");
    hdf5_check(H5Dwrite(group.samples.id(), sample_hdf5_type(spec.type), in_memory.id(),
                        in_file.id(), H5P_DEFAULT, samples.data()),
               place, "cannot write samples");
    group.written = static_cast<std::int64_t>(extent.front());
    group.chunk_checksums.push_back(crc32_of(samples));
    group.checksum.samples = static_cast<std::uint32_t>(
        ::crc32_combine(group.checksum.samples, group.chunk_checksums.back(),
                        static_cast<z_off_t>(samples.size())));
}

/// Writes 32-bit numbers beside the samples; their data set, open.
Hdf5Handle DatasetWriter::State::write_list(const GroupWriter& group, const char* name, hid_t type,
                                            const void* values, hsize_t count) {
    const std::string place = where(group, name);
    reserve(count * sizeof(std::int32_t));
    const Hdf5Handle space =
        hdf5_own(H5Screate_simple(1, &count, nullptr), H5Sclose, place, "cannot make the shape");
    Hdf5Handle list =
        hdf5_own(H5Dcreate2(file.id(), fmt::format("/{}/{}", group.name, name).c_str(), type,
                            space.id(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                 H5Dclose, place, "cannot create the data set");
    hdf5_check(H5Dwrite(list.id(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), place,
               "cannot write");
    return list;
}

void DatasetWriter::State::write_lists(const GroupWriter& group) {
    write_list(group, "labels", H5T_NATIVE_INT32, group.labels.data(), group.labels.size())
        .close(where(group, "labels"));
    const std::string place = where(group, kChunkChecksums);
    Hdf5Handle checksums = write_list(group, kChunkChecksums, H5T_NATIVE_UINT32,
                                      group.chunk_checksums.data(), group.chunk_checksums.size());
    hdf5_write_integer(checksums.id(), kChecksumSamplesAttribute, spec.chunk_samples, place);
    checksums.close(place);
}

void DatasetWriter::State::write_attributes() {
    const std::string& path = output.path();
    hdf5_write_text(file.id(), kFormatAttribute, kDatasetFormat, path);
    hdf5_write_integer(file.id(), kVersionAttribute, kDatasetVersion, path);
    hdf5_write_integer(file.id(), kClassesAttribute, classes(), path);
    hdf5_write_numbers(file.id(), kMeanAttribute, statistics.mean(), path);
    hdf5_write_numbers(file.id(), kStdAttribute, statistics.standard_deviation(), path);
    hdf5_write_text(file.id(), kSourceAttribute, spec.source, path);
    hdf5_write_text(file.id(), kChecksumAttribute,
                    checksum_text(groups[0].checksum, groups[1].checksum), path);
}

void DatasetWriter::State::check(const GroupWriter& group, std::span<const std::byte> samples,
                                 std::span<const std::int32_t> labels) const {
    check_invariant(file.valid(), "a committed dataset is not written to");
    if (samples.size() != labels.size() * sample_bytes()) {
        fail<ShapeError>({.where = where(group, "samples"),
                          .what = "samples and labels do not match",
                          .expected = fmt::format("{} bytes", labels.size() * sample_bytes()),
                          .got = fmt::format("{}", samples.size())});
    }
    const std::int64_t end = spec.classes > 0 ? spec.classes : std::int64_t{INT32_MAX};
    const auto wrong = std::find_if(labels.begin(), labels.end(),
                                    [&](std::int32_t label) { return label < 0 || label >= end; });
    if (wrong != labels.end()) {
        const auto index =
            static_cast<std::ptrdiff_t>(group.labels.size()) + (wrong - labels.begin());
        fail<FileError>({.where = where(group, "labels"),
                         .what = fmt::format("label {} is out of range", index),
                         .expected = fmt::format("0 to {}", end - 1),
                         .got = fmt::format("{}", *wrong)});
    }
    check_finite(samples, spec.type, spec.sample_shape,
                 static_cast<std::int64_t>(group.labels.size()), where(group, "samples"));
}

/// Writes complete chunks, keeps the rest.
void DatasetWriter::State::collect(GroupWriter& group, std::span<const std::byte> samples) {
    while (!samples.empty()) {
        const std::size_t part = std::min(chunk_bytes() - group.pending.size(), samples.size());
        group.pending.insert(group.pending.end(), samples.begin(),
                             samples.begin() + static_cast<std::ptrdiff_t>(part));
        samples = samples.subspan(part);
        if (group.pending.size() == chunk_bytes()) {
            thread.run([&] { write_chunk(group, group.pending); });
            group.pending.clear();
        }
    }
}

DatasetWriter::DatasetWriter(OutputFile file, DatasetSpec spec, Hdf5Thread& thread) {
    check_spec(spec);
    state_ = std::make_unique<State>(std::move(file), std::move(spec), thread);
    State& state = *state_;
    state.of(DatasetGroup::kTrain).name = kTrainGroup;
    state.of(DatasetGroup::kTest).name = kTestGroup;
    state.output.reserve(kStructureBytes);  // no room, no HDF5 file; creating cuts it again
    thread.run([&] {
        state.file = hdf5_create_file(state.output.temporary());
        state.reserve(0);
        for (GroupWriter& group : state.groups) {
            state.create(group);
        }
    });
}

DatasetWriter::~DatasetWriter() = default;

void DatasetWriter::append(DatasetGroup group, std::span<const std::byte> samples,
                           std::span<const std::int32_t> labels) {
    State& state = *state_;
    GroupWriter& to = state.of(group);
    state.check(to, samples, labels);
    for (const std::int32_t label : labels) {
        state.largest_label = std::max(state.largest_label, label);
    }
    to.labels.insert(to.labels.end(), labels.begin(), labels.end());
    to.checksum.labels = crc32_of(std::as_bytes(labels), to.checksum.labels);
    if (group == DatasetGroup::kTrain) {
        state.statistics.add(samples);
    }
    state.collect(to, samples);
}

std::int64_t DatasetWriter::samples(DatasetGroup group) const noexcept {
    return static_cast<std::int64_t>(state_->of(group).labels.size());
}

void DatasetWriter::commit() {
    State& state = *state_;
    const std::string& path = state.output.path();
    check_invariant(state.file.valid(), "a dataset is committed once");
    for (const GroupWriter& group : state.groups) {
        if (group.labels.empty()) {
            fail<FileError>({.where = fmt::format("{}:/{}", path, group.name),
                             .what = "the set is empty",
                             .expected = "at least one sample",
                             .got = "none"});
        }
    }
    check_classes(state.classes(), samples(DatasetGroup::kTrain), path + "@" + kClassesAttribute);
    const std::uint64_t bytes = state.thread.run([&] {
        for (GroupWriter& group : state.groups) {
            if (!group.pending.empty()) {
                state.write_chunk(group, group.pending);
                group.pending.clear();
            }
            group.samples.close(state.where(group, "samples"));
            state.write_lists(group);
        }
        state.reserve(0);
        state.write_attributes();
        hdf5_check(H5Fflush(state.file.id(), H5F_SCOPE_GLOBAL), path, "cannot write the file");
        const std::uint64_t length = hdf5_file_bytes(state.file, path);
        state.file.close(path);
        return length;
    });
    state.output.truncate(bytes);
    state.output.commit();
}

}  // namespace cohort
