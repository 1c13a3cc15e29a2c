// Every check of a dataset group that can be made before training starts.
#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "cohort/data/dataset.hpp"
#include "core/units.hpp"

#include "data/dataset/dataset_layout.hpp"
#include "data/file/file_io.hpp"
#include "data/hdf5/hdf5_attributes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace cohort {

namespace {

/// @return the version of the layout
std::int64_t read_attributes(const Hdf5Handle& file, const std::string& path, SampleSetInfo& info) {
    const std::string format = hdf5_read<std::string>(file.id(), kFormatAttribute, path);
    require_file(format == kDatasetFormat, path + "@" + kFormatAttribute,
                 "not a dataset of this program", kDatasetFormat, format);
    const std::int64_t version = hdf5_read<std::int64_t>(file.id(), kVersionAttribute, path);
    require_file(version == kDatasetVersion || version == kTargetsVersion,
                 path + "@" + kVersionAttribute, "another version of the layout",
                 fmt::format("{}, with targets {}", kDatasetVersion, kTargetsVersion),
                 std::to_string(version));
    if (version == kDatasetVersion) {
        info.classes = hdf5_read<std::int64_t>(file.id(), kClassesAttribute, path);
        require_file(info.classes >= 1, path + "@" + kClassesAttribute,
                     "unusable number of classes", "at least 1", std::to_string(info.classes));
    }
    info.source = hdf5_has_attribute(file.id(), kSourceAttribute, path)
                      ? hdf5_read<std::string>(file.id(), kSourceAttribute, path)
                      : path;
    if (hdf5_has_attribute(file.id(), kChecksumAttribute, path)) {
        info.checksum = hdf5_read<std::string>(file.id(), kChecksumAttribute, path);
    }
    return version;
}

/// Reads a mean or a deviation: one value for all channels or targets, or one for each.
/// @param each  "channel" or "target"
std::vector<float> read_each(const OpenGroup& open, const char* name, std::string_view each,
                             std::int64_t count, bool positive) {
    const std::string& path = open.watch.path();
    const std::string where = path + "@" + name;
    const auto values = hdf5_read<std::vector<double>>(open.file.id(), name, path);
    require_file(values.size() == 1 || values.size() == static_cast<std::size_t>(count), where,
                 "wrong number of values",
                 count == 1 ? "1" : fmt::format("1 or {} (one per {})", count, each),
                 std::to_string(values.size()));
    std::vector<float> result;
    for (const double value : values) {
        const auto single = static_cast<float>(value);
        require_file(std::isfinite(single) && (!positive || single > 0), where, "unusable value",
                     positive ? "a number above 0" : "a finite number", fmt::format("{}", value));
        result.push_back(single);
    }
    result.resize(static_cast<std::size_t>(count), result.front());
    return result;
}

Hdf5Handle open_existing(const Hdf5Handle& file, const std::string& path, const std::string& name,
                         hid_t access = H5P_DEFAULT) {
    const std::string where = path + ":" + name;
    require_file(hdf5_exists(file.id(), name), where, "the data set is missing", "", "",
                 "docs/data.md for what a file must have, or cohort import");
    H5O_info_t about;
    hdf5_check(H5Oget_info_by_name2(file.id(), name.c_str(), &about, H5O_INFO_BASIC, H5P_DEFAULT),
               where, "cannot read what this is");
    require_file(about.type == H5O_TYPE_DATASET, where, "not a data set", "a data set",
                 "a group or type");
    return hdf5_open_dataset(file.id(), name, where, access);
}

/// Refuses data stored with a filter, a compression for example, that this HDF5 cannot undo.
void check_filters(const Hdf5Handle& dataset, const std::string& where) {
    const Hdf5Handle create =
        hdf5_own(H5Dget_create_plist(dataset.id()), where, "cannot read the filters");
    const int count = hdf5_check(H5Pget_nfilters(create.id()), where, "cannot read the filters");
    for (int i = 0; i < count; ++i) {
        unsigned flags = 0;
        unsigned config = 0;
        std::size_t values = 0;
        std::array<char, 64> name{};
        const H5Z_filter_t filter =
            hdf5_check(H5Pget_filter2(create.id(), static_cast<unsigned>(i), &flags, &values,
                                      nullptr, name.size() - 1, name.data(), &config),
                       where, "cannot read the filters");
        const bool known = H5Zfilter_avail(filter) > 0;
        static_cast<void>(H5Eclear2(H5E_DEFAULT));
        require_file(known, where, "the data is stored with a filter that this HDF5 lacks",
                     "gzip, shuffle or another filter of HDF5's own",
                     fmt::format("{} (filter {})",
                                 name.front() == '\0' ? "one without a name" : name.data(), filter),
                     "compression=\"gzip\"");
    }
}

SampleType read_sample_type(const OpenGroup& open) {
    const std::string name = hdf5_type_name(hdf5_type_of(open.samples.id(), open.where).id());
    const auto found = std::ranges::find(kWords<SampleType>, name);
    require_file(found != kWords<SampleType>.end(), open.where, "wrong type",
                 "uint8 or float32, of tokens uint16 or int32", name, "samples.astype('float32')");
    return static_cast<SampleType>(found - kWords<SampleType>.begin());
}

void read_sample_shape(OpenGroup& open) {
    const std::vector<std::int64_t> shape = hdf5_shape(open.samples.id(), open.where);
    const bool tokens = open.info.tokens();
    require_file(shape.size() == 2 || (shape.size() == 4 && !tokens), open.where, "wrong shape",
                 tokens ? "[N,T+1], windows of tokens" : "[N,C,H,W] or [N,F]", format_shape(shape),
                 shape.size() == 3 ? "samples[:, None] for one channel" : "");
    require_file(std::ranges::count(shape, 0) == 0, open.where, "the set is empty",
                 "at least one sample", format_shape(shape));
    require_file(!tokens || shape.back() >= 2, open.where, "the windows have no label",
                 "two tokens or more: inputs, and the label of the last", format_shape(shape));
    open.info.samples = shape.front();
    open.info.sample_shape.assign(shape.begin() + 1, shape.end());
    open.info.sample_shape.back() -= tokens ? 1 : 0;
}

void require_whole(bool whole, const OpenGroup& open, const std::string& expected,
                   const std::string& got) {
    require_file(whole, open.where,
                 "samples are missing: the file is truncated or was not finished", expected, got);
}

/// Samples per stored chunk; refuses chunks that cut samples and chunks that were never written.
std::int64_t check_chunks(const OpenGroup& open, const Hdf5Handle& create) {
    const SampleSetInfo& info = open.info;
    const std::vector<std::int64_t> sample = info.stored_shape();
    std::vector<hsize_t> chunk(sample.size() + 1);
    hdf5_check(H5Pget_chunk(create.id(), static_cast<int>(chunk.size()), chunk.data()), open.where,
               "cannot read the chunk shape");
    const std::vector<std::int64_t> extents(chunk.begin(), chunk.end());
    require_file(std::equal(extents.begin() + 1, extents.end(), sample.begin()), open.where,
                 "chunks cut samples", "chunks of whole samples", format_shape(extents),
                 "chunks=(256, *samples.shape[1:])");
    const std::int64_t chunk_samples = extents.front();
    const auto expected = static_cast<hsize_t>((info.samples + chunk_samples - 1) / chunk_samples);
    const Hdf5Handle space =
        hdf5_own(H5Dget_space(open.samples.id()), open.where, "cannot read the shape");
    hsize_t stored = 0;
    hdf5_check(H5Dget_num_chunks(open.samples.id(), space.id(), &stored), open.where,
               "cannot count the chunks (truncated or damaged)");
    require_whole(stored == expected, open, fmt::format("{} chunks", expected),
                  fmt::format("{}", stored));
    return chunk_samples;
}

void check_contiguous(const OpenGroup& open, const std::string& path) {
    const haddr_t offset = H5Dget_offset(open.samples.id());
    const std::uint64_t needed =
        static_cast<std::uint64_t>(open.info.samples) * open.info.sample_bytes();
    require_whole(offset != HADDR_UNDEF, open, fmt::format("{} bytes", needed), "none");
    const std::uint64_t length = check_readable(path);
    require_whole(offset <= length && needed <= length - offset, open,
                  fmt::format("a file of {} bytes or more", offset + needed),
                  fmt::format("{}", length));
}

/// Sets chunk_samples: as stored, or several stored chunks together when they are very small.
/// Without chunks the default is used.
void check_storage(OpenGroup& open, const std::string& path) {
    const Hdf5Handle create =
        hdf5_own(H5Dget_create_plist(open.samples.id()), open.where, "cannot read the layout");
    const std::int64_t preferred = default_chunk_samples(open.info.sample_bytes());
    std::int64_t stored = preferred;
    switch (H5Pget_layout(create.id())) {
        case H5D_CHUNKED: stored = check_chunks(open, create); break;
        case H5D_CONTIGUOUS:
            if (H5Pget_external_count(create.id()) == 0) {
                check_contiguous(open, path);
                break;
            }
            [[fallthrough]];
        case H5D_VIRTUAL:
            fail<FileError>({.where = open.where,
                             .what = "the samples are in other files",
                             .expected = "a data set stored in this file",
                             .got = "an external or virtual one"});
        default: break;
    }
    constexpr std::int64_t kSmallest = 32;  // below, the cost per read outweighs the reading
    const std::int64_t together =
        std::max<std::int64_t>(1, std::min(preferred, kSmallest) / stored);
    open.info.chunk_samples = std::min(stored * together, open.info.samples);
}

std::vector<std::int32_t> read_labels(const Hdf5Handle& file, const std::string& path,
                                      const std::string& group, const SampleSetInfo& info) {
    const std::string name = "/" + group + "/labels";
    const std::string where = path + ":" + name;
    if (info.tokens()) {
        require_file(!hdf5_exists(file.id(), name), where, "labels beside tokens",
                     "none: a token's label is the token after it",
                     fmt::format("samples of {}", word_of(info.type)),
                     "samples of uint8 or float32 when they are not tokens");
        return {};
    }
    const std::string targets = fmt::format("/{}/{}", group, kTargets);
    require_file(!hdf5_exists(file.id(), targets), path + ":" + targets,
                 "targets in a file of classes",
                 fmt::format("{}={} for targets", kVersionAttribute, kTargetsVersion),
                 std::to_string(kDatasetVersion));
    const Hdf5Handle labels = open_existing(file, path, name);
    check_filters(labels, where);
    const Hdf5Handle type = hdf5_type_of(labels.id(), where);
    require_file(H5Tget_class(type.id()) == H5T_INTEGER, where, "wrong type", "integers",
                 hdf5_type_name(type.id()));
    const std::vector<std::int64_t> shape = hdf5_shape(labels.id(), where);
    require_file(shape == std::vector{info.samples}, where, "wrong shape",
                 fmt::format("[{}], one label per sample", info.samples), format_shape(shape));
    std::vector<std::int64_t> wide(static_cast<std::size_t>(info.samples));
    hdf5_check(H5Dread(labels.id(), H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, wide.data()),
               where, "cannot read the labels (truncated or damaged)");
    const auto wrong = std::ranges::find_if(
        wide, [&](std::int64_t label) { return label < 0 || label >= info.classes; });
    if (wrong != wide.end()) {
        // HDF5 brings what int64 cannot hold to its ends.
        const bool beyond = *wrong == std::numeric_limits<std::int64_t>::max();
        fail<FileError>({.where = where,
                         .what = fmt::format("label {} is out of range", wrong - wide.begin()),
                         .expected = fmt::format("0 to {}", info.classes - 1),
                         .got = fmt::format("{}{}", *wrong, beyond ? " or more" : "")});
    }
    return {wide.begin(), wide.end()};
}

/// Sets info.targets and what belongs to it.
void read_targets(OpenGroup& open, const std::string& group) {
    SampleSetInfo& info = open.info;
    const std::string& path = open.watch.path();
    const std::string name = fmt::format("/{}/{}", group, kTargets);
    const std::string where = path + ":" + name;
    const std::string labels = fmt::format("/{}/{}", group, kLabels);
    require_file(!info.tokens(), where, "targets beside tokens", "samples of uint8 or float32",
                 std::string(word_of(info.type)));
    require_file(!hdf5_exists(open.file.id(), labels), path + ":" + labels, "labels beside targets",
                 "one of them", "both", fmt::format("version {} for labels", kDatasetVersion));
    const Hdf5Handle targets = open_existing(open.file, path, name);
    check_filters(targets, where);
    const Hdf5Handle type = hdf5_type_of(targets.id(), where);
    require_file(H5Tget_class(type.id()) == H5T_FLOAT, where, "wrong type", "float32",
                 hdf5_type_name(type.id()), "targets.astype('float32')");
    const std::vector<std::int64_t> shape = hdf5_shape(targets.id(), where);
    require_file(
        shape.size() == 2 && shape[0] == info.samples && shape[1] >= 1 && shape[1] <= kMostTargets,
        where, "wrong shape",
        fmt::format("[{},D], D from 1 to {} targets per sample", info.samples, kMostTargets),
        format_shape(shape), shape.size() == 1 ? "targets[:, None] for one target" : "");
    info.targets = shape[1];
    open.targets.resize(static_cast<std::size_t>(info.samples * info.targets));
    hdf5_check(
        H5Dread(targets.id(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, open.targets.data()),
        where, "cannot read the targets (truncated or damaged)");
    check_targets(open.targets, info.targets, 0, where);
    info.target_mean = read_each(open, kTargetMeanAttribute, "target", info.targets, false);
    info.target_std = read_each(open, kTargetStdAttribute, "target", info.targets, true);
}

/// Samples of the train group, whichever group is open; of the open group when there is no train
/// group.
std::int64_t train_samples(const OpenGroup& open) {
    const std::string name = fmt::format("/{}/samples", kTrainGroup);
    const std::string where = open.watch.path() + ":" + name;
    if (!hdf5_exists(open.file.id(), name)) {
        return open.info.samples;
    }
    const auto shape = hdf5_shape(hdf5_open_dataset(open.file.id(), name, where).id(), where);
    return shape.empty() ? 0 : shape.front();
}

}  // namespace

void read_samples(const OpenGroup& open, std::int64_t first, std::int64_t count,
                  std::span<std::byte> into) {
    const std::string what = samples_text(first, count);
    const Hdf5Rows rows =
        hdf5_rows(open.samples.id(), first, count, open.info.stored_shape(), open.where);
    try {
        hdf5_check(H5Dread(open.samples.id(), sample_hdf5_type(open.info.type), rows.in_memory.id(),
                           rows.in_file.id(), H5P_DEFAULT, into.data()),
                   open.where, fmt::format("cannot read {} (truncated or damaged)", what));
    } catch (const FileError&) {
        open.watch.check(open.where, what);  // knows the reason
        throw;
    }
    // HDF5 reads zeros beyond the end of a file.
    open.watch.check(open.where, what);
}

OpenGroup open_group(const std::string& path, const std::string& group) {
    OpenGroup open{.watch = FileWatch(path)};
    open.file = hdf5_open_file(path);
    const bool targets = read_attributes(open.file, path, open.info) == kTargetsVersion;
    const std::string name = "/" + group + "/samples";
    open.where = path + ":" + name;
    open.samples = open_existing(open.file, path, name, hdf5_without_chunk_cache(open.where).id());
    check_filters(open.samples, open.where);
    open.info.type = read_sample_type(open);
    read_sample_shape(open);
    if (open.info.tokens()) {
        open.info.vocabulary = read_vocabulary(open.file, path);
    } else {
        const std::int64_t channels = open.info.sample_shape.front();
        open.info.mean = read_each(open, kMeanAttribute, "channel", channels, false);
        open.info.std = read_each(open, kStdAttribute, "channel", channels, true);
    }
    check_storage(open, path);
    if (targets) {
        read_targets(open, group);
    } else {
        check_classes(open.info.classes, train_samples(open) * open.info.positions(),
                      path + "@" + kClassesAttribute);
        open.labels = read_labels(open.file, path, group, open.info);
    }
    check_contents(open, group);
    return open;
}

}  // namespace cohort
