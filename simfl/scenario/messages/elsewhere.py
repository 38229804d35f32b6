"""What other tools and papers call a key or a plugin, and how the same is written here.

The words are those of the configurations of Flower, FLGo, FedML, APPFL, pfl-research, FLUTE, FedScale and PFLlib.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from simfl.core.errors import amount
from simfl.scenario.yaml.places import KeyPath

WORDS = {
    "clients": "num_clients n_clients nr_clients num_supernodes num_partitions client_num_in_total population "
    "num_users total_clients total_worker n_parties",
    "seed": "random_seed data_seed sample_seed",
    "training": "strategy algorithm aggregator algorithm_name federated_optimizer fl_algorithm aggregator_name",
    "training.rounds": "num_rounds n_rounds nrounds num_server_rounds comm_round communication_rounds total_rounds "
    "global_rounds global_epochs num_global_epochs central_num_iterations max_iteration max_rounds number_of_rounds",
    "training.local_epochs": "epochs epoch num_epochs local_ep local_epoch num_local_epochs local_num_epochs "
    "epochs_per_round client_epochs",
    "training.local_steps": "num_steps num_local_steps local_iterations local_updates steps_per_round",
    "training.batch_size": "batch bs local_bs local_batch_size train_batch_size train_bs client_batch_size bsz",
    "training.learning_rate": "lr eta local_lr client_lr eta_l local_learning_rate client_learning_rate "
    "initial_lr_client",
    "training.decay training.decay_at": "lr_decay learning_rate_decay lr_decay_factor decay_rate decay_factor "
    "learning_rate_decay_gamma",
    "training.weight_decay": "wd l2 l2_penalty",
    "training.clip_norm": "clip_grad clip_grad_norm grad_clip max_grad_norm gradient_clipping",
    "training.client=fedprox:mu": "proximal_mu fedprox_mu prox_mu proxy_mu",
    "training.client=fedprox": "prox",
    "training.weighting": "client_weights_mode weight_by_samples aggregation_weights",
    "training.server_learning_rate": "eta server_lr global_lr eta_g global_learning_rate server_eta",
    "training.server_optimiser": "server_optimizer server_opt",
    "training.server_optimiser=sgd:momentum": "server_momentum",
    "training.server_optimiser=sgd:momentum=0.9": "fedavgm fedmom",
    "training.server_optimiser=adam": "fedadam fedopt",
    "training.server_optimiser=yogi": "fedyogi fedopt",
    "training.server_optimiser=adagrad": "fedadagrad fedopt",
    "training.aggregate=median training.weighting=equal": "fedmedian coordinate_median",
    "training.aggregate=trimmed_mean training.weighting=equal": "fedtrimmedavg fedtrimmed",
    "training.deadline_s": "timeout round_timeout time_out time_threshold time_threthold round_deadline",
    "training=fedavg": "fedavgaggregator fedsgd federated_averaging sync synchronous",
    "training=fedbuff": "fedbuffaggregator async asynchronous semi_async",
    "training=fedasync": "fedasyncaggregator async_fedavg async asynchronous",
    "training=fedbuff:buffer": "buffer_size async_buffer buffer_k",
    "training=fedbuff:concurrency": "max_concurrency max_in_flight async_concurrency",
    "training=fedbuff:staleness": "staleness_fn staleness_func staleness_function",
    "training=gossip": "decentralized decentralised decentralized_fl dfl",
    "selection": "policy sampler sampling sample client_selection selection_strategy sampling_strategy selector",
    "selection.k": "fraction_fit fraction_train fraction_clients fraction frac join_ratio proportion "
    "participation_rate sample_rate clients_per_round num_clients_per_round client_num_per_round "
    "num_clients_per_iteration cohort cohort_size num_participants num_sampled_clients min_fit_clients min_train_nodes",
    "selection=random": "uniform uniform_sampling random_sampling random_selection",
    "selection=all": "full full_participation",
    "selection=bernoulli": "poisson poisson_sampling",
    "selection=power_of_choice": "pow_d poc",
    "learning.data": "dataset data_set dataset_name",
    "learning.data=fashion_mnist": "fmnist fashion",
    "learning.data=cifar10": "cifar",
    "learning.data=cifar100": "cifar",
    "learning.data=parquet:path=FILE learning.partition=natural": "femnist celeba shakespeare sent140 reddit "
    "stackoverflow flair",
    "learning.data=parquet:path=FILE": "emnist kmnist qmnist svhn cinic10 imagenet tinyimagenet stl10 imdb agnews sst2",
    "learning.model": "model_name model_type net architecture backbone",
    "learning.model=logistic": "lr mclr linear logistic_regression logreg",
    "learning.model=mlp": "dnn simple_dnn",
    "learning.model=cnn_mnist": "cnn simple_cnn",
    "learning.model=char_lstm": "rnn lstm stacked_lstm",
    "learning.model=resnet18_bn": "resnet18",
    "learning.model=resnet18_gn": "resnet18",
    "learning.backend": "train train_fn train_function fit fit_fn trainer local_update",
    "learning.loss": "criterion loss_fn loss_function objective",
    "learning.partition": "partition_method partition_strategy partitioner data_partition split data_split",
    "learning.partition=iid": "homo homogeneous iidpartitioner",
    "learning.partition=natural": "natural_id by_user by_writer idpartitioner naturalidpartitioner",
    "learning.partition=dirichlet:beta": "alpha dirichlet_alpha partition_alpha dir_alpha",
    "training=fedasync:server_learning_rate": "alpha mixing_weight",
    "learning.partition=dirichlet:beta=0.1": "dir lda hetero dirichlet_noniid label_dirichlet "
    "dirichletpartitioner non_iid heterogeneous skewed",
    "learning.partition=shards": "pathological pat class_noniid shard shardpartitioner pathologicalpartitioner non_iid "
    "heterogeneous skewed",
    "learning.partition=label_skew": "class_noniid non_iid heterogeneous skewed",
    "learning.device": "gpu gpu_id device_id use_gpu using_gpu use_cuda cuda",
    "learning.evaluate.every": "eval_gap eval_every eval_interval test_every frequency_of_the_test "
    "evaluation_frequency val_freq rec_freq",
    "devices.availability=always": "idl ideal",
    "devices.availability=bernoulli:dropout": "dropout_rate client_dropout drop_rate dropout_prob dropout_probability",
    "devices.availability=trace:path": "device_avail_file availability_trace",
    "devices.failure=bernoulli:probability": "client_drop_rate dropout_rate drop_rate failure_rate crash_rate",
    "devices.profiles": "device_conf_file device_profiles",
    "network.server.down_bytes_per_s": "bandwidth_bytes_per_s",
    "secagg": "secure_aggregation use_secagg",
    "compression": "compression_ratio topk randomk sparsify sparsification quantisation quantization compressor",
    "compression=quantise": "qsgd",
    "compression=sign": "signsgd",
    "topology=tree": "hierarchical hierfl hierarchicalfl hierarchical_fl",
    "privacy": "dp_config",
}
"""How something is written here, as overrides, and the words that others have for it."""

SHARES = (
    "fraction_fit fraction_train fraction_clients fraction frac join_ratio proportion participation_rate sample_rate"
)
"""Words for a share of the clients where simfl counts them."""

EXPLAINED = {
    "noise is a stage, e.g. privacy.stages=[central_gaussian] with training.weighting=equal (simfl list stage)": "dp "
    "use_dp enable_dp epsilon noise noise_multiplier clip_norm clipping_norm norm_bound sigma differential_privacy",
    "clients train by SGD; the server's optimiser is 'training.server_optimiser'": "optimizer optimiser optim "
    "client_optimizer",
    "simfl compare and simfl sweep repeat runs with --replications": "times repeats num_repeats num_trials",
    "there is none; a plugin can be yours (simfl list has those there are)": "qfedavg qfedsgd feddyn fednova mifa krum "
    "multikrum moon fedgen fedprox_vr pfedme apfl fedrep fedper fedala",
}
"""What is said of words that no key or plugin here stands for."""


class Counterpart(NamedTuple):
    """A key, or a plugin, that does what another tool has another word for.

    Attributes:
        place: of the plugin or, where there is a key, of what has the key.
        plugin: its name; empty where any that has the key will do.
        key: empty where the word stands for a plugin.
        fields: of the plugin, as text.
    """

    place: KeyPath
    plugin: str
    key: str
    fields: Mapping[str, str]


def plain(word: str) -> str:
    """A name without case and punctuation."""
    return re.sub(r"[^a-z0-9]", "", word.lower())


@cache
def _by_word() -> tuple[dict[str, list[str]], dict[str, str]]:
    index: dict[str, list[str]] = {}
    for here, words in WORDS.items():
        for word in words.split():
            index.setdefault(plain(word), []).append(here)
    return index, {plain(word): sentence for sentence, words in EXPLAINED.items() for word in words.split()}


def counterparts(word: str) -> list[tuple[Counterpart, ...]]:
    """What another tool's word may stand for; several counterparts in one entry belong together."""
    return [tuple(_read(part, word) for part in here.split()) for here in _by_word()[0].get(plain(word), ())]


def explanation(word: str) -> str:
    """What is said of a word of another tool that nothing here stands for."""
    sentence = _by_word()[1].get(plain(word))
    return f"; {sentence}" if sentence else ""


def _read(here: str, word: str) -> Counterpart:
    place, _, rest = here.replace("FILE", f"{plain(word)}.parquet").partition("=")
    plugin, _, field = rest.partition(":")
    key, _, value = field.partition("=")
    path = tuple(place.split("."))
    if plugin:
        return Counterpart(path, plugin, "" if value else key, {key: value} if value else {})
    return Counterpart(path[:-1], "", path[-1], {})


def in_clients(word: str, written: object, clients: object) -> str:
    """How many clients a share is, where a word stands for one."""
    if not isinstance(written, (int, float)) or not isinstance(clients, int) or not 0 < written <= 1:
        return ""
    if plain(word) not in map(plain, SHARES.split()):
        return ""
    return f" ({written} of {amount(clients, 'client')} is {max(1, round(written * clients))})"
