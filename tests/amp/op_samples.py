"""The ops that are measured: operands to call them with, and what is known of them that no call shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class Tensors:
    """Makes the operands of one sample call. The first floating one has type ``first``, others ``rest``."""

    def __init__(self, device: str, first: torch.dtype, rest: torch.dtype) -> None:
        self.device = device
        self.first = first
        self.rest = rest
        self.made = 0

    def __call__(self, *shape: int) -> Tensor:
        """A floating operand, with values in (0, 1) on the CPU."""
        dtype = self.first if self.made == 0 else self.rest
        self.made += 1
        if self.device == "cpu":
            return (torch.rand(shape, generator=torch.Generator().manual_seed(self.made)) * 0.98 + 0.01).to(
                dtype
            )
        return torch.empty(shape, dtype=dtype, device=self.device)

    def dominant(self, size: int) -> Tensor:
        """A square operand with a large diagonal, which has a Cholesky factor."""
        return self(size, size) + 9 * torch.eye(size, device=self.device, dtype=self.first)

    def labels(self, *shape: int) -> Tensor:
        """Class numbers, all zero."""
        return torch.zeros(shape, dtype=torch.long, device=self.device)

    def mask(self, *shape: int) -> Tensor:
        """A boolean mask."""
        return torch.ones(shape, dtype=torch.bool, device=self.device)


class Filled(Tensors):
    """Operands with values in (0, 1) on every device: fake tensors have none, kernels take them."""

    def __call__(self, *shape: int) -> Tensor:
        """As in the class above."""
        dtype = self.first if self.made == 0 else self.rest
        self.made += 1
        filled = torch.rand(shape, generator=torch.Generator().manual_seed(self.made)) * 0.98 + 0.01
        return filled.to(self.device, dtype)


Sample = Callable[[Tensors], tuple[tuple[Any, ...], dict[str, Any]]]


def _sample(build: Callable[[Tensors], tuple[Any, ...]], **keywords: Any) -> Sample:
    return lambda t: (build(t), keywords)


SAMPLES: list[tuple[Sample, str]] = [
    (
        _sample(lambda t: (t(4, 4),)),
        """
        abs absolute acos arccos acosh arccosh angle asin arcsin asinh arcsinh atan arctan atanh arctanh
        bernoulli ceil clone contiguous cos cosh deg2rad detach det digamma erf erfc erfinv exp exp2 expm1
        fix flatten fliplr flipud floor frac i0 isfinite isinf isnan isneginf isposinf isreal lgamma log
        log10 log1p log2 logdet logical_not logit matrix_exp neg negative nonzero positive rad2deg ravel
        reciprocal relu round rsqrt sgn sigmoid sign signbit sin sinc sinh slogdet sqrt square squeeze t tan
        tanh trace tril triu trunc unique unique_consecutive argwhere count_nonzero inverse pinverse
         qr svd geqrf all any argmax argmin argsort aminmax amax amin max min mean median nanmean
        nanmedian nansum norm prod std std_mean sum var var_mean mode msort sort zeros_like ones_like
        empty_like rand_like randn_like nan_to_num block_diag cov corrcoef diagonal diag diagflat fft.fft
        fft.fft2 fft.fftn fft.ifft fft.rfft fft.rfft2 fft.rfftn fft.irfft fft.hfft fft.ihfft fft.fftshift
         linalg.cond linalg.det linalg.eig linalg.eigh linalg.eigvals linalg.eigvalsh
        linalg.inv linalg.lu_factor linalg.matrix_exp linalg.matrix_norm linalg.matrix_rank linalg.norm
        linalg.pinv linalg.qr linalg.slogdet linalg.svd linalg.svdvals linalg.vector_norm linalg.diagonal
        linalg.cholesky_ex linalg.matrix_sqrth special.digamma special.entr special.erf special.erfc special.erfcx
        special.erfinv special.exp2 special.expit special.expm1 special.gammaln special.i0 special.i0e
        special.i1 special.log1p special.logit special.ndtr special.ndtri special.psi special.sinc
        special.log_ndtr celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish
        relu6 rrelu selu silu softplus softshrink softsign tanhshrink glu gumbel_softmax dropout
        alpha_dropout feature_alpha_dropout dropout1d normalize __neg__ __pos__ __abs__ __invert_free__
        adjoint resolve_conj resolve_neg conj positive long int short bool byte char
        """,
    ),
    (
        _sample(lambda t: (t(4, 4), t(4, 4))),
        """
        add sub subtract mul multiply div divide true_divide floor_divide remainder fmod pow atan2 arctan2
        maximum minimum fmax fmin hypot logaddexp logaddexp2 copysign nextafter xlogy heaviside ldexp eq ne
        gt ge lt le greater greater_equal less less_equal not_equal isclose logical_and logical_or
        logical_xor matmul mm cdist dist kron cosine_similarity pairwise_distance l1_loss mse_loss
        smooth_l1_loss huber_loss kl_div binary_cross_entropy binary_cross_entropy_with_logits
        poisson_nll_loss soft_margin_loss multilabel_soft_margin_loss special.xlogy special.xlog1py
        special.zeta linalg.solve linalg.vecdot inner tensordot rsub expand_as view_as reshape_as
        cross_entropy __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __floordiv__ __mod__
        __pow__ __matmul__ __rmatmul__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ linalg.matmul
        """,
    ),
    (_sample(lambda t: (t(4), t(4))), "dot vdot outer ger"),
    (_sample(lambda t: (t(4, 3), t(4, 3))), "cross linalg.cross"),
    (_sample(lambda t: (t(4, 4), 2)), "__rpow__ __rtruediv__ __rdiv__ __rfloordiv__"),
    (_sample(lambda t: (t(4, 4), -1)), "unsqueeze"),
    (
        _sample(lambda t: (t(4, 4), 0)),
        """
        cumsum cumprod cummax cummin logcumsumexp softmax log_softmax softmin logsumexp unbind flip
        __getitem__ special.softmax special.log_softmax special.logsumexp
        """,
    ),
    (
        _sample(lambda t: (t(4, 4), 2)),
        "topk kthvalue chunk split tensor_split hsplit vsplit matrix_power mvlgamma",
    ),
    (_sample(lambda t: (t(4, 4), 2.0, 0, 1.0)), "renorm"),
    (_sample(lambda t: (t(4, 4), 0, 1)), "transpose swapaxes swapdims select movedim moveaxis"),
    (_sample(lambda t: (t(4, 4), 0, 0, 2)), "narrow"),
    (_sample(lambda t: (t(4, 4), (16,))), "view reshape"),
    (_sample(lambda t: (t(4, 4), (4, 4))), "expand broadcast_to"),
    (_sample(lambda t: (t(4, 4), (2, 2))), "repeat tile"),
    (_sample(lambda t: (t(4, 4), (1, 0))), "permute"),
    (_sample(lambda t: (t(4, 4), 1, (2, 2))), "unflatten"),
    (_sample(lambda t: (t(4, 4), 2, 0)), "repeat_interleave"),
    (_sample(lambda t: (t(4, 4), 1, 0)), "roll"),
    (_sample(lambda t: (t(4, 4), 1, (0, 1))), "rot90"),
    (_sample(lambda t: (t(4, 4), (4, 4), (4, 1))), "as_strided"),
    (_sample(lambda t: (t(4, 4), 0.1, 0.9)), "clamp clip threshold"),
    (_sample(lambda t: (t(4, 4), 0.1)), "clamp_min clamp_max hardshrink"),
    (_sample(lambda t: (t(4, 4), 0.5)), "quantile nanquantile"),
    (_sample(lambda t: (t(4, 4), t.labels(4))), "nll_loss multi_margin_loss"),
    (_sample(lambda t: (t(4, 4), t.labels(4, 4))), "multilabel_margin_loss take take_along_dim"),
    (_sample(lambda t: (t(4, 4), t.labels(4, 4))), "hinge_embedding_loss"),
    (_sample(lambda t: (t(4, 4), t(4, 4), t.labels(4))), "cosine_embedding_loss"),
    (_sample(lambda t: (t(4), t(4), t(4))), "margin_ranking_loss"),
    (
        _sample(lambda t: (t(4, 4), t(4, 4), t(4, 4))),
        "triplet_margin_loss triplet_margin_with_distance_loss gaussian_nll_loss addcmul addcdiv addmm lerp",
    ),
    (_sample(lambda t: (t(6, 4, 4), t.labels(4, 2), (6, 6, 6, 6), (2, 2, 2, 2))), "ctc_loss"),
    (_sample(lambda t: (t(4, 4), t(4))), "mv"),
    (_sample(lambda t: (t(4, 4), t(4, 4), t(4))), "linear"),
    (_sample(lambda t: (t(4), t(4, 4), t(4))), "addmv"),
    (_sample(lambda t: (t(4, 4), t(4), t(4))), "addr"),
    (_sample(lambda t: (t(2, 4, 4), t(2, 4, 4))), "bmm"),
    (_sample(lambda t: (t(2, 4, 4), t(2, 4, 4), t(2, 4, 4))), "baddbmm"),
    (_sample(lambda t: (t(4, 4), t(2, 4, 4), t(2, 4, 4))), "addbmm"),
    (_sample(lambda t: (t(4, 4), t(4, 4))), "chain_matmul"),
    (
        _sample(lambda t: ([t(4, 4), t(4, 4), t(4, 4)],)),
        "linalg.multi_dot cat concat concatenate stack hstack vstack dstack column_stack row_stack",
    ),
    (_sample(lambda t: ("ij,jk->ik", t(4, 4), t(4, 4))), "einsum"),
    (_sample(lambda t: (t(2, 4), t(2, 4), t(4, 4, 4), t(4))), "bilinear"),
    (_sample(lambda t: (t(2, 2, 4, 4), t(2, 2, 4, 4), t(2, 2, 4, 4))), "scaled_dot_product_attention"),
    (_sample(lambda t: (t(2, 4, 8), t(4, 4, 3), t(4))), "conv1d conv_transpose1d"),
    (_sample(lambda t: (t(2, 4, 8, 8), t(4, 4, 3, 3), t(4))), "conv2d conv_transpose2d"),
    (_sample(lambda t: (t(2, 4, 8, 8, 8), t(4, 4, 3, 3, 3), t(4))), "conv3d conv_transpose3d"),
    (_sample(lambda t: (t(8, 2, 4), t(3, 4, 4), t(4))), "conv_tbc"),
    (_sample(lambda t: (t(2, 4, 8), 2)), "avg_pool1d max_pool1d adaptive_avg_pool1d adaptive_max_pool1d"),
    (
        _sample(lambda t: (t(2, 4, 8, 8), 2)),
        """
        avg_pool2d max_pool2d adaptive_avg_pool2d adaptive_max_pool2d pixel_shuffle pixel_unshuffle unfold
        channel_shuffle group_norm
        """,
    ),
    (
        _sample(lambda t: (t(2, 4, 8, 8, 8), 2)),
        "avg_pool3d max_pool3d adaptive_avg_pool3d adaptive_max_pool3d",
    ),
    (_sample(lambda t: (t(2, 4, 8, 8), 2.0, 2)), "lp_pool2d"),
    (_sample(lambda t: (t(2, 4, 8), 2.0, 2)), "lp_pool1d"),
    (_sample(lambda t: (t(2, 16, 9), (4, 4), 2)), "fold"),
    (_sample(lambda t: (t(2, 4, 8, 8),)), "dropout2d instance_norm"),
    (_sample(lambda t: (t(2, 4, 8, 8, 8),)), "dropout3d"),
    (_sample(lambda t: (t(2, 4, 8, 8), 2)), "local_response_norm"),
    (_sample(lambda t: (t(2, 4, 8, 8), (1, 1, 1, 1))), "pad"),
    (_sample(lambda t: (t(2, 4, 8, 8), (4, 4))), "interpolate upsample upsample_nearest upsample_bilinear"),
    (_sample(lambda t: (t(2, 4, 8, 8), t(2, 8, 8, 2))), "grid_sample"),
    (_sample(lambda t: (t(2, 2, 3), (2, 4, 8, 8))), "affine_grid"),
    (_sample(lambda t: (t(4, 4), (4,), t(4), t(4))), "layer_norm"),
    (_sample(lambda t: (t(4, 4), (4,), t(4))), "rms_norm"),
    (_sample(lambda t: (t(4, 4), t(4))), "prelu"),
    (_sample(lambda t: (t.labels(4), t(4, 4))), "embedding"),
    (_sample(lambda t: (t.labels(2, 4), t(4, 4))), "embedding_bag"),
    (_sample(lambda t: (t.mask(4, 4), t(4, 4), t(4, 4))), "where"),
    (_sample(lambda t: (t(4, 4), t.mask(4, 4), 0.0)), "masked_fill"),
    (_sample(lambda t: (t(4, 4), t.mask(4, 4))), "masked_select"),
    (_sample(lambda t: (t(4, 4), t.mask(4, 4), t(16))), "masked_scatter"),
    (_sample(lambda t: (t(4, 4), 0, t.labels(4))), "index_select"),
    (_sample(lambda t: (t(4, 4), 0, t.labels(4), t(4, 4))), "index_add index_copy"),
    (_sample(lambda t: (t(4, 4), 0, t.labels(4), 0.0)), "index_fill"),
    (_sample(lambda t: (t(4, 4), (t.labels(4),), t(4, 4))), "index_put"),
    (_sample(lambda t: (t(4, 4), 0, t.labels(4, 4))), "gather"),
    (_sample(lambda t: (t(4, 4), 0, t.labels(4, 4), t(4, 4))), "scatter scatter_add"),
    (_sample(lambda t: (t(4, 4), 0, t.labels(4, 4), t(4, 4), "amax")), "scatter_reduce"),
    (_sample(lambda t: (t(4), t(4))), "meshgrid complex searchsorted bucketize trapz trapezoid polar"),
    (_sample(lambda t: (t(4, 4),)), "pdist"),
    (_sample(lambda t: (t(4, 4), t(4, 4))), "linalg.lstsq"),
    (_sample(lambda t: (t(4, 4), t(4), t(4), t(4), t(4), True)), "batch_norm"),
    (_sample(lambda t: (t(4, 4), t(6, 4), t.labels(4))), "linear_cross_entropy"),
    (_sample(lambda t: (t(2, 4, 8, 8, 8), 2.0, 2)), "lp_pool3d"),
    (_sample(lambda t: (t(2, 4, 8, 8), 2, (4, 4))), "fractional_max_pool2d"),
    (_sample(lambda t: (t(2, 4, 8, 8, 8), 2, (4, 4, 4))), "fractional_max_pool3d"),
    (_sample(lambda t: (t(2, 4, 8), t.labels(2, 4, 8), 2)), "max_unpool1d"),
    (_sample(lambda t: (t(2, 4, 8, 8), t.labels(2, 4, 8, 8), 2)), "max_unpool2d"),
    (_sample(lambda t: (t(2, 4, 8, 8, 8), t.labels(2, 4, 8, 8, 8), 2)), "max_unpool3d"),
    (_sample(lambda t: (t.dominant(4),)), "cholesky linalg.cholesky"),
    (
        _sample(lambda t: (t(4, 4),)),
        "cpu cholesky_inverse linalg.inv_ex fft.ifft2 fft.ifftn fft.irfft2 fft.irfftn",
    ),
    (_sample(lambda t: (t(4, 4), t(4, 4))), "cholesky_solve triangular_solve"),
    (_sample(lambda t: (t(4, 4), t(4))), "orgqr linalg.householder_product"),
    (_sample(lambda t: (t(4, 4), t(4), t(4, 4))), "ormqr"),
    (
        _sample(lambda t: (t(4, 4), t(4, 4), torch.arange(1, 5, dtype=torch.int32, device=t.device))),
        "lu_solve",
    ),
    (_sample(lambda t: (t(4, 2, 2), 1)), "linalg.tensorinv"),
    (_sample(lambda t: (t(4, 4), t(4))), "linalg.tensorsolve"),
    (_sample(lambda t: (t(4, 2),)), "view_as_complex"),
    (_sample(lambda t: (t(4, 4), 0.1, 0, -8, 7)), "fake_quantize_per_tensor_affine"),
    (_sample(lambda t: (t(4), 4)), "multinomial"),
    (_sample(lambda t: (t(4), 4)), "histc vander"),
    (_sample(lambda t: (t(4, 4), 1)), "tril triu diag_embed"),
    (_sample(lambda t: (t(4, 4),)), "diff cumulative_trapezoid"),
    (_sample(lambda t: (t(64), 16), return_complex=True), "stft"),
    (_sample(lambda t: (t(4, 4), 16)), "new_zeros new_ones new_empty"),
    (_sample(lambda t: (t(4, 4), 0.5)), "full_like"),
    (
        _sample(lambda t: (t.mask(4), t.mask(4))),
        "bitwise_and bitwise_or bitwise_xor __and__ __or__ __xor__",
    ),
    (_sample(lambda t: (t.mask(4),)), "bitwise_not __invert__"),
    (_sample(lambda t: (t.labels(4),)), "bincount one_hot"),
    (_sample(lambda t: (4,), device="cpu"), "randperm"),
    (_sample(lambda t: (4, (3,)), device="cpu"), "randint"),
    (_sample(lambda t: (3, 3), device="cpu"), "tril_indices triu_indices"),
    (_sample(lambda t: (3, 3), device="cpu"), "zeros ones rand randn empty eye"),
    (_sample(lambda t: (0.0, 1.0, 4), device="cpu"), "linspace logspace"),
    (
        _sample(lambda t: (4,), device="cpu"),
        "hann_window hamming_window blackman_window bartlett_window kaiser_window",
    ),
]
"""Sample operands, and the names that take them. A name is looked up as a function of torch, of
torch.nn.functional and as a tensor method; a dotted one as a function of that submodule."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


MOVES = _names(
    """
    view reshape reshape_as view_as flatten unflatten ravel squeeze unsqueeze transpose t swapaxes swapdims
    permute movedim moveaxis adjoint conj resolve_conj resolve_neg positive __pos__ expand expand_as
    broadcast_to repeat tile repeat_interleave roll flip fliplr flipud rot90 narrow select unbind chunk
    split tensor_split hsplit vsplit diagonal diag diag_embed diagflat tril triu as_strided clone contiguous
    detach index_select gather take take_along_dim masked_select masked_fill masked_scatter index_fill pad
    unfold pixel_shuffle pixel_unshuffle channel_shuffle unique unique_consecutive sort msort topk kthvalue
    max min amax amin aminmax median nanmedian mode cummax cummin max_pool1d max_pool2d max_pool3d
    adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d meshgrid block_diag linalg.diagonal
    fft.fftshift __getitem__ cpu
    """
)
"""Ops that hand on elements of their operand unchanged (beside a constant fill) and compute nothing. That
they do is measured too, where the policy is: every element of the result is one of the operand's, or 0."""

UNMEASURABLE_ON_CUDA = {
    "nonzero": ("integer", "asks the device; returns indices"),
    "argwhere": ("integer", "data-dependent shape; returns indices"),
    "__invert__": ("integer", "does not take fake tensors; returns integers"),
    "bincount": ("integer", "data-dependent shape; returns integers"),
    "one_hot": ("integer", "data-dependent shape; returns integers"),
    "unique": ("view", "data-dependent shape; not in the header"),
    "unique_consecutive": ("view", "data-dependent shape; not in the header"),
    "masked_select": ("view", "data-dependent shape; not in the header"),
    "__getitem__": ("view", "asks the device; not in the header"),
    "unfold": ("view", "asks the device; im2col is not in the header"),
    "geqrf": ("untouched", "asks the device; not in the header"),
    "lu_solve": ("untouched", "its pivots are read; not in the header"),
    "fake_quantize_per_tensor_affine": ("untouched", "asks the device; not in the header"),
    "linalg.lstsq": ("untouched", "data-dependent shape; not in the header"),
    "ldexp": ("float32", "multiplies by a pow, which the meta kernel of fake tensors does not call"),
    "mvlgamma": ("float32", "ends in a sum, which the meta kernel of fake tensors does not call"),
    "heaviside": ("untouched", "the meta kernel promotes, which the others refuse; not in the header"),
    "trace": ("float32", "ends in a sum, which the meta kernel of fake tensors does not call"),
    "pinverse": ("lower", "linalg.pinv by another name"),
    "linalg.pinv": ("lower", "ends in a matmul, which the meta kernel of fake tensors does not call"),
    "affine_grid": ("lower", "a bmm, which the meta kernel of fake tensors does not call"),
    "cov": ("lower", "data-dependent check; ends in a matmul"),
    "corrcoef": ("lower", "data-dependent check; cov divided by its diagonal"),
    "gaussian_nll_loss": ("float32", "data-dependent check; adds a logarithm"),
    "ctc_loss": ("untouched", "asks the device; not in the header, and has no half kernel"),
    "grid_sample": ("promote", "asks the device; grid_sampler is registered as promote"),
    "batch_norm": ("untouched", "asks the device; not in the header"),
    "lstm": ("lower", "_cudnn_rnn, registered in CUDA builds only: AutocastRNN.cpp"),
    "gru": ("lower", "_cudnn_rnn, registered in CUDA builds only: AutocastRNN.cpp"),
    "rnn": ("lower", "_cudnn_rnn, registered in CUDA builds only: AutocastRNN.cpp"),
    "lstm_cell": ("lower", "lstm_cell is in the header"),
    "gru_cell": ("lower", "gru_cell is in the header"),
    "rnn_cell": ("lower", "rnn_tanh_cell and rnn_relu_cell are in the header"),
    "multi_head_attention_forward": ("lower", "ends in a linear layer"),
    "transformer_encoder_layer": ("float32", "ends in layer_norm unless norm_first=True"),
    "transformer_decoder_layer": ("float32", "ends in layer_norm unless norm_first=True"),
    "transformer": ("float32", "ends in layer_norm"),
    "adaptive_log_softmax_with_loss": ("float32", "ends in log_softmax"),
    "complex": ("untouched", "the meta kernel promotes, which the others refuse; not in the header"),
    "polar": ("untouched", "the meta kernel promotes, which the others refuse; not in the header"),
    "lerp": ("untouched", "the meta kernel promotes before 2.6, which the others refuse; not in the header"),
}
"""Policies that fake CUDA tensors cannot show, or show wrongly, and where they come from instead."""

REFUSED_ON_CUDA = frozenset({"group_norm", "layer_norm"})
"""Ops that take half with float32 weights on the CPU and raise on CUDA. No fake tensor shows it: seen on a device with
torch 2.11."""

UNMEASURABLE_IN_OLD_RELEASES = {
    "scaled_dot_product_attention": "lower",
    "kthvalue": "view",
    **dict.fromkeys(
        _names(
            "fft.fft fft.hfft fft.ifft fft.ihfft fft.irfft fft.irfft2 fft.irfftn fft.rfft fft.rfft2 fft.rfftn stft"
        ),
        "untouched",
    ),
}
"""Policies that fake CUDA tensors show in newer releases alone. The header lists the same in all of them."""

SENSITIVE = {
    "loss": """
        cross_entropy nll_loss binary_cross_entropy binary_cross_entropy_with_logits mse_loss l1_loss
        smooth_l1_loss huber_loss kl_div poisson_nll_loss gaussian_nll_loss soft_margin_loss
        multilabel_soft_margin_loss multilabel_margin_loss multi_margin_loss margin_ranking_loss
        hinge_embedding_loss cosine_embedding_loss triplet_margin_loss triplet_margin_with_distance_loss
        ctc_loss adaptive_log_softmax_with_loss linear_cross_entropy
    """,
    "softmax": """
        softmax log_softmax softmin logsumexp gumbel_softmax special.softmax special.log_softmax
        special.logsumexp
    """,
    "exponential": """
        exp exp2 expm1 log log10 log1p log2 logaddexp logaddexp2 logcumsumexp logdet logit logsigmoid
        slogdet sinh cosh tan erfinv softplus lgamma digamma mvlgamma xlogy matrix_exp linalg.slogdet
        linalg.matrix_exp special.exp2 special.expm1 special.log1p special.logit special.xlogy
        special.xlog1py special.gammaln special.erfinv special.entr special.ndtri special.log_ndtr
    """,
    "reduction": """
        sum nansum mean nanmean prod cumsum cumprod var std var_mean std_mean trapz trapezoid
        cumulative_trapezoid trace cov corrcoef
    """,
    "norm": """
        norm linalg.norm linalg.vector_norm linalg.matrix_norm normalize layer_norm group_norm rms_norm
        local_response_norm renorm dist cdist pdist pairwise_distance cosine_similarity lp_pool1d lp_pool2d
        lp_pool3d
    """,
    "power": "pow __pow__ __rpow__ __rtruediv__ __rdiv__ square sqrt rsqrt reciprocal",
    "linalg": """
        inverse pinverse cholesky qr svd geqrf linalg.cholesky linalg.cholesky_ex linalg.cond linalg.det det
        linalg.eig linalg.eigh linalg.eigvals linalg.eigvalsh linalg.inv linalg.lstsq linalg.lu_factor
        linalg.matrix_rank linalg.pinv linalg.qr linalg.solve linalg.svd linalg.svdvals
        linalg.inv_ex cholesky_inverse cholesky_solve triangular_solve lu_solve linalg.tensorinv
        linalg.tensorsolve linalg.matrix_sqrth
    """,
    "fourier": """
        fft.fft fft.fft2 fft.fftn fft.ifft fft.rfft fft.rfft2 fft.rfftn fft.irfft fft.hfft fft.ihfft
        fft.ifft2 fft.ifftn fft.irfft2 fft.irfftn
    """,
    "spectrum": "stft",
}
"""Ops that suffer in half precision, by what they suffer from. A judgement, not a measurement: most are in
torch's float32 list; the others overflow, cancel or raise in float16 (var, mean, sqrt, linear algebra)."""

MODULES = {
    "linear": "Linear LazyLinear",
    "bilinear": "Bilinear",
    "conv1d": "Conv1d LazyConv1d",
    "conv2d": "Conv2d LazyConv2d",
    "conv3d": "Conv3d LazyConv3d",
    "conv_transpose1d": "ConvTranspose1d LazyConvTranspose1d",
    "conv_transpose2d": "ConvTranspose2d LazyConvTranspose2d",
    "conv_transpose3d": "ConvTranspose3d LazyConvTranspose3d",
    "lstm": "LSTM",
    "gru": "GRU",
    "rnn": "RNN",
    "lstm_cell": "LSTMCell",
    "gru_cell": "GRUCell",
    "rnn_cell": "RNNCell",
    "multi_head_attention_forward": "MultiheadAttention",
    "transformer_encoder_layer": "TransformerEncoderLayer",
    "transformer_decoder_layer": "TransformerDecoderLayer",
    "transformer": "Transformer",
    "prelu": "PReLU",
    "batch_norm": """
        BatchNorm1d BatchNorm2d BatchNorm3d LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d SyncBatchNorm
    """,
    "instance_norm": """
        InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyInstanceNorm1d LazyInstanceNorm2d
        LazyInstanceNorm3d
    """,
    "layer_norm": "LayerNorm",
    "group_norm": "GroupNorm",
    "rms_norm": "RMSNorm",
    "local_response_norm": "LocalResponseNorm",
    "embedding": "Embedding",
    "embedding_bag": "EmbeddingBag",
    "adaptive_log_softmax_with_loss": "AdaptiveLogSoftmaxWithLoss",
    "linear_cross_entropy": "LinearCrossEntropyLoss",
    "cross_entropy": "CrossEntropyLoss",
    "nll_loss": "NLLLoss NLLLoss2d",
    "binary_cross_entropy": "BCELoss",
    "binary_cross_entropy_with_logits": "BCEWithLogitsLoss",
    "mse_loss": "MSELoss",
    "l1_loss": "L1Loss",
    "smooth_l1_loss": "SmoothL1Loss",
    "huber_loss": "HuberLoss",
    "kl_div": "KLDivLoss",
    "poisson_nll_loss": "PoissonNLLLoss",
    "gaussian_nll_loss": "GaussianNLLLoss",
    "soft_margin_loss": "SoftMarginLoss",
    "multilabel_soft_margin_loss": "MultiLabelSoftMarginLoss",
    "multilabel_margin_loss": "MultiLabelMarginLoss",
    "multi_margin_loss": "MultiMarginLoss",
    "margin_ranking_loss": "MarginRankingLoss",
    "hinge_embedding_loss": "HingeEmbeddingLoss",
    "cosine_embedding_loss": "CosineEmbeddingLoss",
    "triplet_margin_loss": "TripletMarginLoss",
    "triplet_margin_with_distance_loss": "TripletMarginWithDistanceLoss",
    "ctc_loss": "CTCLoss",
    "cosine_similarity": "CosineSimilarity",
    "pairwise_distance": "PairwiseDistance",
    "softmax": "Softmax Softmax2d",
    "log_softmax": "LogSoftmax",
    "softmin": "Softmin",
    "relu": "ReLU",
    "relu6": "ReLU6",
    "rrelu": "RReLU",
    "leaky_relu": "LeakyReLU",
    "elu": "ELU",
    "celu": "CELU",
    "selu": "SELU",
    "gelu": "GELU",
    "glu": "GLU",
    "silu": "SiLU",
    "mish": "Mish",
    "sigmoid": "Sigmoid",
    "logsigmoid": "LogSigmoid",
    "tanh": "Tanh",
    "tanhshrink": "Tanhshrink",
    "softplus": "Softplus",
    "softsign": "Softsign",
    "softshrink": "Softshrink",
    "hardshrink": "Hardshrink",
    "hardsigmoid": "Hardsigmoid",
    "hardswish": "Hardswish",
    "hardtanh": "Hardtanh",
    "threshold": "Threshold",
    "dropout": "Dropout",
    "dropout1d": "Dropout1d",
    "dropout2d": "Dropout2d",
    "dropout3d": "Dropout3d",
    "alpha_dropout": "AlphaDropout",
    "feature_alpha_dropout": "FeatureAlphaDropout",
    "avg_pool1d": "AvgPool1d",
    "avg_pool2d": "AvgPool2d",
    "avg_pool3d": "AvgPool3d",
    "max_pool1d": "MaxPool1d",
    "max_pool2d": "MaxPool2d",
    "max_pool3d": "MaxPool3d",
    "max_unpool1d": "MaxUnpool1d",
    "max_unpool2d": "MaxUnpool2d",
    "max_unpool3d": "MaxUnpool3d",
    "adaptive_avg_pool1d": "AdaptiveAvgPool1d",
    "adaptive_avg_pool2d": "AdaptiveAvgPool2d",
    "adaptive_avg_pool3d": "AdaptiveAvgPool3d",
    "adaptive_max_pool1d": "AdaptiveMaxPool1d",
    "adaptive_max_pool2d": "AdaptiveMaxPool2d",
    "adaptive_max_pool3d": "AdaptiveMaxPool3d",
    "fractional_max_pool2d": "FractionalMaxPool2d",
    "fractional_max_pool3d": "FractionalMaxPool3d",
    "lp_pool1d": "LPPool1d",
    "lp_pool2d": "LPPool2d",
    "lp_pool3d": "LPPool3d",
    "pad": """
        CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d ReflectionPad1d
        ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d ZeroPad1d
        ZeroPad2d ZeroPad3d
    """,
    "interpolate": "Upsample UpsamplingBilinear2d UpsamplingNearest2d",
    "pixel_shuffle": "PixelShuffle",
    "pixel_unshuffle": "PixelUnshuffle",
    "channel_shuffle": "ChannelShuffle",
    "flatten": "Flatten",
    "unflatten": "Unflatten",
    "unfold": "Unfold",
    "fold": "Fold",
    "positive": "Identity",
}
"""The op that a module of torch.nn is, as far as the type of its result goes."""

NOT_ONE_OP = _names(
    """
    Container CrossMapLRN2d DataParallel Module ModuleDict ModuleList ParameterDict ParameterList RNNBase
    RNNCellBase Sequential TransformerDecoder TransformerEncoder
    """
)
"""Public classes of torch.nn that are containers, bases, or loops over other modules."""


AMBIGUOUS_METHODS = _names("log exp pow norm dist tan square matrix_power cov")
"""Methods of tensors that loggers, distributions, data frames and arrays have too."""
